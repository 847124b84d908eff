"""The page of a result: for every estimator, with whatever there is, and the same for the same result."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle.describe.sentences import describe_guarantee
from dp_publish import Receipt, publish

Run = Callable[..., "subprocess.CompletedProcess[str]"]
GRAPHS = ["graphical-lasso", "ridge", "neighborhood", "scio", "clime"]


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


@pytest.mark.parametrize("estimator", [*GRAPHS, "thresholded-covariance", "regression"])
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
