"""What the pages tell a reader to type works: with made-up tables in the place of the reader's own.

A block is run unless the line before it says why not, as `<!-- not run: REASON -->`.
"""

import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from tests.conftest import COMMANDS

from dp_bundle.cli.console import run as run_command
from dp_bundle.trust.signing import public_key_of
from dp_bundle.trust.store import public_key_path
from dp_publish import Policy, load_key, publish
from dp_publish.policy.file import load_policy

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?P<mark>^<!-- not run: [^\n]+ -->\n)?^(?P<fence>```+)(?P<kind>\w*|{[\w-]+}.*?)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
COLUMNS = ["alcohol", "ash", "hue", "magnesium"]
POLICY = '[privacy]\nunit = "row"\nmu = 20\n[columns."*"]\nbounds = [0, 20]\n'


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield kind and text of every block that is run."""
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if not found["mark"] and not found["kind"].startswith("{"):  # a directive, or a cell that the site's build runs
            yield found["kind"], found["text"]


PAGES = {
    str(page.relative_to(ROOT)).removeprefix("docs/"): list(blocks(page))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if not {"_build", "adr"} & {*page.parts}
}


def make_table(name: str, columns: list[str], n_rows: int = 600) -> pd.DataFrame:
    """Make up a table of correlated values from 0 to 20, with a policy beside it."""
    rng = np.random.default_rng(3)
    values = rng.normal(12, 2, (n_rows, len(columns))) + rng.normal(0, 2, (n_rows, 1))
    table = pd.DataFrame(values.clip(0, 20), columns=columns)
    table.to_parquet(f"{name}.parquet")
    Path(f"{name}.policy.toml").write_text(POLICY, encoding="utf-8")
    return table


def make_bundle(name: str) -> None:
    """Publish a made-up table."""
    table = make_table(name, COLUMNS)
    policy = Policy.model_validate(
        {"dataset": {"name": name}, "privacy": {"unit": "cell", "mu": 20}, "columns": {"*": {"bounds": [0, 20]}}}
    )
    publish(table, policy, out=Path(f"{name}.bundle.tar"), key=load_key())


def for_publishers() -> dict[str, Any]:
    """Make up the survey of the demo."""
    runpy.run_path(f"{ROOT}/examples/demo.py")["make_people"]().to_csv("people.csv", index=False)
    return {}


def for_researchers() -> dict[str, Any]:
    """Publish that survey."""
    for_publishers()
    run("dp-publish people.csv")
    return {}


def for_choices() -> dict[str, Any]:
    """Make a table of many rows."""
    (make_table("sachs", ["one", "two", "three"], n_rows=4000) * 500).to_parquet("sachs.parquet")
    return {}


def for_series() -> dict[str, Any]:
    """Make the tables of two months and of the year, and those of three months of a ward."""
    table = make_table("visits-2026-09", ["age", "glucose", "pressure"], n_rows=4000) * 10
    for part in ("2026-09", "2026-10", "2026"):
        table.to_parquet(f"visits-{part}.parquet")
    for month in ("2026-09", "2026-10", "2026-11"):
        table.assign(patient_id=np.arange(4000)).to_parquet(f"ward-{month}.parquet")
    return {}


def for_mixed_tables() -> dict[str, Any]:
    """Make a table with categories, dates and gaps, and one of counts."""
    rng = np.random.default_rng(3)
    sex, age = rng.choice(["f", "m", "x"], 5000, p=[0.5, 0.48, 0.02]), rng.integers(0, 100, 5000)
    district = rng.choice(["north", "east", "south", "west", "abroad", None], 5000)
    admitted = pd.Timestamp(2026, 1, 1) + pd.to_timedelta(rng.integers(0, 365, 5000), unit="D")
    table = {"sex": sex, "district": district, "smoker": rng.random(5000) < 0.3, "age": age}
    table["triage"] = np.where(age + rng.normal(0, 20, 5000) > 60, "red", "green")
    pd.DataFrame({**table, "admitted": admitted.date}).to_parquet("clinic.parquet")
    pd.DataFrame(rng.poisson(30, (500, 4)), columns=list("abcd")).to_parquet("weekly.parquet")
    return {}


def for_other_tools() -> dict[str, Any]:
    """Hand out the signer's fingerprint, and the page that verifies."""
    shutil.copy(ROOT / "examples" / "verify_without_dpgraph.py", ".")
    return {"FINGERPRINT": public_key_of(load_key()).fingerprint}


def for_keepers() -> dict[str, Any]:
    """Keep the bundle in the folder of all bundles."""
    Path("wine.bundle.tar").rename("published/wine.bundle.tar")
    return {}


class Page(NamedTuple):
    """What a page takes for granted: bundles and their signers' keys, tables, and more that is made, and known.

    `clear` is what is cleared away after each block, as it stands for another day's work.
    """

    bundles: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    prepare: Callable[[], dict[str, Any]] = dict
    clear: str = "*.graph"


EXPECTED = {
    "README.md": Page((), (), for_publishers),
    "portal.md": Page(("people",)),
    "publisher.md": Page((), (), for_publishers),
    "researcher.md": Page(("north", "south"), (), for_researchers),
    "how-to/choose-a-strength.md": Page(("wine",), (), for_choices),
    "how-to/choose-an-estimator.md": Page(("diabetes",)),
    "how-to/choose-rows-or-covariance.md": Page((), ("wine",), for_choices),
    "how-to/publish-a-mixed-table.md": Page((), (), for_mixed_tables),
    "how-to/publish-counts.md": Page((), (), for_mixed_tables),
    "how-to/deposit-in-a-portal.md": Page(("wine",)),
    "how-to/keep-keys-and-ledger.md": Page(("wine",), (), for_keepers),
    "how-to/pool-hospitals.md": Page(("south",), ("north",), dict, "nothing"),
    "how-to/publish-beyond-one-machine.md": Page((), ("wine",)),
    "how-to/work-on-many-machines.md": Page((), ("wine",)),
    "how-to/publish-every-month.md": Page((), (), for_series),
    "how-to/publish-from-python.md": Page(),
    "how-to/read-without-us.md": Page(("wine",), (), for_other_tools),
}


def test_pages_with_snippets_are_known() -> None:
    """A page that has something to type is run here, or says beside it why not."""
    runnable = {name for name, found in PAGES.items() if {kind for kind, _ in found} & {"console", "sh", "python"}}
    kinds = {kind for found in PAGES.values() for kind, _ in found}

    assert runnable == set(EXPECTED)
    assert kinds <= {"console", "python", "toml", "text"}


@pytest.mark.parametrize(
    "name", [name if name == "portal.md" else pytest.param(name, marks=pytest.mark.slow) for name in EXPECTED]
)
def test_snippets_run_in_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command ends with 0, every Python block without an error, and every policy is one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    published = tmp_path / "published"
    published.mkdir()
    page = EXPECTED[name]
    for table in page.tables:
        make_table(table, COLUMNS)
    for bundle in page.bundles:
        make_bundle(bundle)
    if page.bundles:
        for each in ("publisher", "north", "south"):
            shutil.copy(public_key_path(), f"{each}.pub")
    known = page.prepare()

    for kind, text in PAGES[name]:
        if kind == "console":
            for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
                run(line)
        elif kind == "python":
            exec(compile(text, name, "exec"), known)  # noqa: S102
        elif kind == "toml":
            Path("part.toml").write_text(text, encoding="utf-8")
            load_policy(Path("part.toml"), "wine", {} if "[privacy]" in text else {"mu": 1.0})
            if "[dataset]" in text:
                weaker = text.replace("mu = 1.0", "mu = 20.0")  # or nothing could be seen of so few rows
                rest = "" if '[columns."*"]' in text else '[columns."*"]\nbounds = [0, 20]\n'
                dataset = tomllib.loads(text)["dataset"]["name"]
                Path(f"{dataset}.policy.toml").write_text(weaker + rest, encoding="utf-8")
        for number, left in enumerate(sorted(tmp_path.glob(page.clear))):
            left.rename(published / f"{len(list(published.iterdir()))}-{number}-{left.name}")


@pytest.mark.slow
def test_other_tools_correct_levels_replaced_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks give the means and covariances of dp-learn; its shares are those of both pages and the CSV."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    rng, n = np.random.default_rng(5), 20_000
    table = {"alcohol": rng.normal(10, 2, n), "sex": rng.choice(["f", "m"], n, p=[0.7, 0.3])}
    pd.DataFrame({**table, "region": rng.choice(list("NESW"), n, p=[0.4, 0.3, 0.2, 0.1])}).to_parquet("wine.parquet")
    Path("wine.policy.toml").write_text("""[dataset]
name = "wine"
[privacy]
unit = "cell"
mu = 1.0
[columns.alcohol]
bounds = [0, 20]
[columns.sex]
kind = "category"
categories = ["f", "m"]
mechanism = "randomized-response"
[columns.region]
kind = "category"
categories = ["N", "E", "S", "W"]
""")
    run("dp-publish wine.parquet --out wine.bundle.tar")
    known = for_other_tools()
    for kind, text in PAGES["how-to/read-without-us.md"]:
        if kind == "python":
            exec(compile(text, "read-without-us.md", "exec"), known)  # noqa: S102
    run("dp-learn wine.bundle.tar --estimator thresholded-covariance --out covariance")
    ours = pd.read_csv("covariance/covariance.csv", index_col=0).rename(lambda name: name.split(" ")[0])
    np.testing.assert_allclose(known["covariance"].loc[ours.index, ours.index], ours, rtol=2e-3, atol=2e-5)

    run("dp-learn wine.bundle.tar --report --out graph")
    shares = pd.read_csv("graph/margins.csv").set_index(["column", "level"])
    mean, error = known["rows"].mean(), known["rows"].sem()
    report = Path("graph/report.html").read_text()
    Path("all").mkdir()
    Path("wine.bundle.tar").rename("all/wine.bundle.tar")
    run("dp-bundle catalog all --out site")
    page = next(Path("site").rglob("release-1.html")).read_text()
    for column, level, name in (("sex", "m", "sex"), *(("region", level, f"region={level}") for level in "NESW")):
        share, low, high = shares.loc[(column, level), ["share", "ci_low", "ci_high"]]
        assert share == pytest.approx(mean[name], abs=1e-9)
        assert (high - low) / 3.92 == pytest.approx(error[name], rel=0.01)
        told = f'{100 * share:.1f} % <span class="interval">{100 * low:.1f} to {100 * high:.1f}</span>'
        assert f"{level}</bdi> <b>{told}" in report
        assert f"{level}</bdi> <b>{told}" in page
    assert abs(shares["share"]["region"]["N"] - 0.4) < 0.03


def run(line: str) -> None:
    """Run one command as a user does, but for a process of its own where it is one of ours, and for long audits."""
    line = line.replace("--canaries 1000", "--canaries 100")
    name, *words = shlex.split(line, comments=True)
    if f"{name} {words[0] if words else ''}" in COMMANDS:
        name, words = f"{name} {words[0]}", words[1:]
    if name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            run_command(COMMANDS[name], words)
        assert not ended.value.code, line
        return
    program = Path(sys.executable).with_name(name)
    finished = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=600)
    assert finished.returncode == 0, f"{line}\n{finished.stderr}"
