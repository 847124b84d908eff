"""The page of a comparison in the browser: sound in both schemes, on a phone, and on paper."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.browser.judging import LOOKS, faults
from tests.browser.opening import Opened
from tests.browser.results import HOSTILE_NAMES
from tests.browser.test_report import wait_for_figures
from tests.conftest import Run, make_policy

from dp_publish import publish

pytestmark = pytest.mark.browser


@pytest.fixture
def compared(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> Path:
    """Compare two networks of columns with hostile names, of which one link has changed."""
    p = len(HOSTILE_NAMES)
    for place, name in enumerate(("one", "two")):
        precision = np.eye(p) - 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
        precision[0, 1] = precision[1, 0] = -0.4 + 0.8 * place
        rows = np.random.default_rng(place).multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=3000)
        policy = make_policy({each: [-8, 8] for each in HOSTILE_NAMES}, name=name, mu=20.0, unit="cell")
        publish(pd.DataFrame(rows, columns=HOSTILE_NAMES), policy, out=tmp_path / f"{name}.tar", key=key)
    assert command("dp-learn", "compare", "one.tar", "two.tar", "--report").returncode == 0
    return tmp_path / "one+two.comparison" / "report.html"


def test_page_is_sound(compared: Path, open_silent: Callable[..., Opened], take_picture: Callable[..., None]) -> None:
    """The page is silent, has no violation in axe-core, fits 390 pixels, and draws both graphs."""
    for place, look in enumerate(LOOKS):
        page = open_silent(compared, **look).page
        wait_for_figures(page)
        take_picture(page, f"comparison {place}")
        assert faults(page, keyboard=not place) == []
        assert page.locator("#graphs figure canvas").count() >= 2


def test_tables_can_be_read_without_scripts(compared: Path, open_silent: Callable[..., Opened]) -> None:
    """Every pair is in the table, and what the figures show is told in words."""
    page = open_silent(compared, scripts=False).page
    n_columns = len(HOSTILE_NAMES)

    assert page.locator("#differences-table tbody tr:visible").count() == n_columns * (n_columns - 1) // 2
    assert page.locator("#strengths-table tbody tr:visible").count() == n_columns
    assert page.locator("#graph-0-says").is_visible()
