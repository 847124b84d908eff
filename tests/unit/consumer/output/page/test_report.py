"""The page of a result: for every estimator, the same for the same result, whatever strangers write into bundles."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_bundle.describe.sentences import describe_guarantee
from dp_publish import Receipt, publish

Learn = Callable[..., str]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "{{7*7}}",
    "$$x^2$$",
    "<img src=x onerror=alert(1)>",
    "עמודה",
    "列名",
    "x" * 200,
]


@pytest.fixture
def learn(command: Run, tmp_path: Path) -> Learn:
    """Return what runs dp-learn, and returns the page."""

    def run(*words: object, out: str = "found") -> str:
        done = command("dp-learn", *words, "--report", "--out", out)
        assert done.returncode == 0, done.stderr
        return (tmp_path / out / "report.html").read_text(encoding="utf-8")

    return run


def shown(page: str) -> str:
    """Return the elements of a page but scripts and styles."""
    return re.sub("<(script|style)\\b.*?</\\1>", "", page, flags=re.DOTALL)


def text_of(page: str) -> str:
    """Return the text that a page shows."""
    return html.unescape(re.sub("<[^>]*>", "", shown(page)))


@pytest.mark.parametrize("words", [(), ("--estimator", "thresholded-covariance"), ("--estimator", "regression")])
def test_every_kind_of_estimator_has_a_page(
    words: tuple[str, ...], bundle: Receipt, learn: Learn, tmp_path: Path
) -> None:
    """Whatever was estimated, the page has its table, the guarantee and the command, and links to its own parts."""
    target = ["--target", "weight"] if "regression" in words else []
    page, again = (learn(bundle.path, *words, *target, out=out) for out in ("one", "two"))
    assert page == again
    ids = re.findall(r'\bid="([^"]*)"', shown(page))
    assert len(ids) == len(set(ids)) > 10
    assert set(re.findall('href="#([^"]*)"', shown(page))) <= set(ids)
    promise = describe_guarantee(bundle.release)
    for each in (*promise, bundle.release.lineage.created, "height", f"dp-learn {bundle.path.name}", "@misc"):
        assert each in text_of(page)
    assert re.search("sha256:[0-9a-f]{64}", text_of(page))
    assert str(tmp_path) not in page
    assert "--out" not in text_of(page)


def test_names_of_strangers_are_text(key: Ed25519PrivateKey, learn: Learn, tmp_path: Path) -> None:
    """Hostile names of columns, titles and citations are shown as they are, and make no element and no script."""
    words = {"title": "<b>{{7*7}}</b>", "creator": "</pre><script>alert(2)</script>", "citation": "{% raw %}<!--"}
    rows = np.random.default_rng(5).normal(size=(300, len(HOSTILE))).cumsum(axis=1) / 2.0
    policy = make_policy({name: [-15.0, 15.0] for name in HOSTILE}, unit="row", mu=100.0)
    policy = policy.model_copy(update={"dataset": policy.dataset.model_copy(update=words)})
    publish(pd.DataFrame(rows, columns=HOSTILE), policy, out=tmp_path / "strange.tar", key=key)
    page = learn("strange.tar", "--alpha", 0.1)
    for script in re.findall("<script>(.*?)</script>", page, re.DOTALL):  # each is one of those that the policy allows
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    assert not re.search("<script>|<b>{{|<img|<!--", re.sub("<script>.*?</script>", "", page, flags=re.DOTALL))
    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;" in page
    assert "列名" in page
    data = re.search('<script type="application/json" id="data">(.*?)</script>', page)[1]  # type: ignore[index]
    assert json.loads(data)["graph"]["names"][:2] == HOSTILE[:2]
