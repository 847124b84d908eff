"""The page of a result: for every estimator, the same for the same result, whatever strangers write into bundles."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle.describe.sentences import describe_guarantee
from dp_publish import Policy, Receipt, publish

Run = Callable[..., "subprocess.CompletedProcess[str]"]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "{{7*7}}",
    "$$x^2$$",
    "<img src=x onerror=alert(1)>",
    "עמודה",
    "列名",
    "x" * 200,
]
MOST = 3_000_000  # bytes


class Sections(HTMLParser):
    """The ids of a page, the targets of its links, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.text = ""
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep ids and targets."""
        attributes = dict(attrs)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.targets += [attributes["href"] or ""] if tag == "a" else []
        self._silent = tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        """Keep a text that is shown."""
        self.text += "" if self._silent else data


def read(folder: Path) -> Sections:
    """Return the page of a result."""
    return Sections((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "estimator", ["graphical-lasso", "ridge", "neighborhood", "scio", "clime", "thresholded-covariance", "regression"]
)
def test_every_estimator_has_a_page(estimator: str, bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Whatever was estimated, the page has its table, the guarantee and the command, and links to its own parts."""
    target = ["--target", "weight"] if estimator == "regression" else []
    done = command("dp-learn", bundle.path, "--estimator", estimator, *target, "--report", "--out", "found")
    assert done.returncode == 0, done.stderr
    page = read(tmp_path / "found")
    assert len(page.ids) == len(set(page.ids))
    assert {target for target in page.targets if target.startswith("#")} <= {f"#{each}" for each in page.ids}
    promise = describe_guarantee(bundle.release)
    for shown in (*promise, bundle.release.lineage.created, "height", f"dp-learn {bundle.path.name}", "@misc"):
        assert shown in page.text
    assert str(tmp_path) not in page.text


def test_discriminant_has_a_page(table: pd.DataFrame, key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """A discriminant's page has its coefficients, and the means of both classes."""
    tall = table.assign(tall=(table["height"] > 170.0).astype(int))
    bounds = {"height": [120, 220], "weight": [20, 140], "tall": [0, 1]}
    publish(tall, make_policy(bounds, mu=20.0, unit="row"), out=tmp_path / "tall.tar", key=key)
    done = command("dp-learn", "tall.tar", "--estimator", "lda", "--target", "tall", "--report", "--out", "found")
    assert done.returncode == 0, done.stderr
    page = read(tmp_path / "found")
    assert "The mean of every column in each class." in page.text
    assert "The coefficient of every column." in page.text


def test_same_result_gives_the_same_page(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Two runs with the same options write the same bytes, wherever they write them."""
    for folder in ("one", "two"):
        assert command("dp-learn", bundle.path, "--fdr", 0.05, "--report", "--out", folder).returncode == 0
    assert (tmp_path / "one" / "report.html").read_bytes() == (tmp_path / "two" / "report.html").read_bytes()
    assert "--fdr 0.05" in read(tmp_path / "one").text
    assert "--out" not in read(tmp_path / "one").text


def test_page_can_be_left_out(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """With --no-report there is no page, and the message and a later run know nothing of one."""
    done = command("dp-learn", bundle.path, "--no-report", "--out", "found")
    assert "report.html" not in done.stdout
    assert not (tmp_path / "found" / "report.html").exists()
    done = command("dp-learn", bundle.path, "--report", "--out", "found")
    assert "report.html" in done.stdout
    assert re.search("sha256:[0-9a-f]{64}", read(tmp_path / "found").text)


def make_bundle(path: Path, names: list[str], key: Ed25519PrivateKey, **dataset: str) -> None:
    """Publish 300 rows of columns that depend on each other, with these names."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, len(names))).cumsum(axis=1) / 2.0
    described = {
        "dataset": {"name": "strange", **dataset},
        "privacy": {"unit": "row", "mu": 100.0},
        "columns": {name: {"bounds": [-15.0, 15.0]} for name in names},
    }
    publish(pd.DataFrame(rows, columns=names), Policy.model_validate(described), out=path, key=key)


def test_names_of_strangers_are_text(key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """Hostile names of columns, titles and citations are shown as they are, and make no element and no script."""
    words = {"title": "<b>{{7*7}}</b>", "creator": "</pre><script>alert(2)</script>", "citation": "{% raw %}<!--"}
    make_bundle(tmp_path / "strange.tar", HOSTILE, key, **words)
    done = command("dp-learn", "strange.tar", "--alpha", 0.1, "--report", "--out", "found")
    assert done.returncode == 0, done.stderr

    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    for script in re.findall("<script>(.*?)</script>", page, re.DOTALL):  # each is one of those that the policy allows
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    shown = re.sub("<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search("<script>|<b>{{|<img|<!--", shown)
    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;" in page
    assert "列名" in page
    data = json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert data["graph"]["names"][:2] == HOSTILE[:2]


def test_colours_of_figures_can_be_swapped(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """No source of a figure holds a colour, where the script that swaps light for dark would not find it."""
    assert command("dp-learn", bundle.path, "--report", "--out", "found").returncode == 0
    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    figures = re.search('<script type="application/json" id="figures">(.*?)</script>', page)[1]
    sources = [entry for entry in _objects(json.loads(figures)) if entry.get("name") == "ColumnDataSource"]
    assert len(sources) > 5
    assert not re.search('"#[0-9a-f]{6}"', json.dumps(sources))


def _objects(part: object) -> Iterator[dict[str, object]]:
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _objects(inner)


def test_page_of_thirty_columns_is_small(key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """With 30 columns of which all are linked, a page is not larger than it may be."""
    make_bundle(tmp_path / "thirty.tar", [f"column {place}" for place in range(30)], key)
    done = command("dp-learn", "thirty.tar", "--estimator", "ridge", "--report", "--out", "found")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "found" / "report.html").stat().st_size < MOST
