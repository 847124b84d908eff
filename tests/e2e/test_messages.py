"""Refusals of the commands: what each says, and how it ends, is what tests/messages.txt holds.

Where messages were changed on purpose, `pytest tests/e2e/test_messages.py --update-messages` writes the file again. A
further case is its `$` line, with the files that it needs before it, after which the same command fills in the rest.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path
from dp_publish import publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.sampling.keystream import insecure_keystream

FILE = Path(__file__).parents[1] / "messages.txt"
BOUNDS = {"height": [120, 220], "weight": [20, 140], "visits": [0, 30]}
POLICY = '[privacy]\nunit = "row"\nmu = 20\n' + "".join(
    f"[columns.{name}]\nbounds = {limits}\n" for name, limits in BOUNDS.items()
)


class Step(NamedTuple):
    """A file to write, by its name (`> NAME`, then lines after `| `), or a command (`$ WORDS`) and how it ends."""

    kind: str
    name: str
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join([f"{self.kind} {self.name}", *self.lines])


def sections(text: str) -> dict[str, list[Step]]:
    """Return the steps of every section, which begins with its name after `# `."""
    found: dict[str, list[Step]] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "#":
            steps = found.setdefault(rest, [])
        elif kind in (">", "$"):
            steps.append(Step(kind, rest, []))
        elif line and found:
            steps[-1].lines.append(line)
    return found


HEAD, _, REST = FILE.read_text("utf-8").partition("\n\n# ")
SECTIONS = sections(f"# {REST}")


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a table, good bundles, and such as a stranger signed, or somebody changed."""
    folder = tmp_path_factory.mktemp("messages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DPGRAPH_HOME", str(folder / "home"))
        new_key_pair()
        key, stranger = load_private_key(private_key_path()), Ed25519PrivateKey.generate()
        rng = np.random.default_rng(7)
        height = rng.normal(170, 10, 400)
        columns = {"height": height, "weight": 0.9 * height - 90 + rng.normal(0, 6, 400), "visits": rng.poisson(4, 400)}
        table = pd.DataFrame(columns)
        table.to_parquet("people.parquet")
        Path("people.policy.toml").write_text(POLICY, encoding="utf-8")
        for name, dataset, bounds, signer, privacy in (
            ("rows.tar", "rows", BOUNDS, key, {"mu": 20.0}),
            ("moments.tar", "moments", BOUNDS, key, {"mu": 20.0, "release": "covariance", "mechanism": "gaussian"}),
            ("narrow.tar", "narrow", {each: BOUNDS[each] for each in ["height"]}, key, {"mu": 20.0}),
            ("hidden.tar", "hidden", {each: [-9e5, 9e5] for each in BOUNDS}, key, {"mu": 0.1}),
            ("foreign.tar", "foreign", BOUNDS, stranger, {"mu": 20.0}),
            ("older.tar", "series", BOUNDS, key, {"mu": 20.0}),
            ("newer.tar", "series", BOUNDS, key, {"mu": 20.0}),
        ):
            policy = make_policy(bounds, name=dataset, **privacy)
            ledger = None if signer is key else Ledger(folder / "stranger.sqlite")
            given = {"key": signer, "ledger": ledger, "keystream": insecure_keystream(1)}
            publish(table[[*bounds]], policy, out=folder / name, **given)  # type: ignore[arg-type]
        sections = "".join(f"[columns.c{number}]\ndrop = true\n" for number in range(20_001))
        Path("many.policy.toml").write_text(sections, encoding="utf-8")
        Path("blank.csv").write_text("x,y\n1,2\n" + 2**21 * "\n", encoding="utf-8")
        content = bytearray(Path("rows.tar").read_bytes())
        content[len(content) // 2] ^= 1
        Path("changed.tar").write_bytes(content)
    return folder


def said(text: str, folder: Path) -> list[str]:
    """Return what a command says, without what differs between two runs."""
    text = text.replace(f"{folder}/", "").replace(str(folder), "HERE")
    text = re.sub(r"; see .* --help$", "; see --help", text, flags=re.MULTILINE)  # by the name of this process
    return re.sub(r"\b(?:(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b|[0-9a-f]{12}(?=\.\.\.))", "DIGEST", text).splitlines()


@pytest.mark.parametrize("name", SECTIONS)
def test_refusals_are_those_of_the_file(
    name: str, furnished: Path, command: Run, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Each command prints no answer and no traceback, books nothing, and ends with the code and the words there."""
    shutil.copytree(furnished, tmp_path, dirs_exist_ok=True)
    booked, steps, wrong = Ledger().entries(), list[Step](), list[str]()
    for step in SECTIONS[name]:
        if step.kind == ">":
            Path(step.name).write_text("".join(f"{line[2:]}\n" for line in step.lines), encoding="utf-8")
            steps.append(step)
            continue
        done = command(*(word.replace("\\n", "\n") for word in shlex.split(step.name)))
        *remarks, last = said(done.stderr, tmp_path) or ["silent"]
        steps.append(Step("$", step.name, [f"{done.returncode}: {last}", *remarks]))
        is_refusal = done.returncode in range(1, 6) and done.stdout == "" and last.startswith("error: ")
        if not is_refusal or "Traceback" in done.stderr or Ledger().entries() != booked:
            wrong.append(str(steps[-1]))

    if pytestconfig.getoption("update_messages"):
        SECTIONS[name] = steps
        FILE.write_text("\n".join([HEAD.strip(), *written(SECTIONS)]), encoding="utf-8")
    assert wrong == []
    assert list(map(str, steps)) == list(map(str, SECTIONS[name]))


def written(found: dict[str, list[Step]]) -> Iterator[str]:
    """Yield the lines of the file."""
    for name, steps in found.items():
        yield f"\n# {name}\n"
        yield from (f"{step}\n" if step.kind == "$" else str(step) for step in steps)
