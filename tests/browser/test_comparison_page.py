"""The page of a comparison in the browser: sound in both schemes, on a phone, and on paper."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from playwright.sync_api import Page
from tests.browser.judging import axe_violations, keyboard_complaints, outside_the_window
from tests.browser.opening import DESKTOP, PHONE, Opened
from tests.browser.results import HOSTILE_NAMES
from tests.conftest import Run, make_policy

from dp_publish import publish

pytestmark = pytest.mark.browser


@pytest.fixture
def compared(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> Path:
    """Compare two networks of columns with hostile names, of which one link has changed."""
    for place, name in enumerate(("one", "two")):
        precision = np.eye(len(HOSTILE_NAMES)) - 0.4 * (
            np.eye(len(HOSTILE_NAMES), k=1) + np.eye(len(HOSTILE_NAMES), k=-1)
        )
        precision[0, 1] = precision[1, 0] = -0.4 + 0.8 * place
        rows = np.random.default_rng(place).multivariate_normal(
            np.zeros(len(precision)), np.linalg.inv(precision), size=3000
        )
        policy = make_policy({each: [-8, 8] for each in HOSTILE_NAMES}, name=name, mu=20.0, unit="cell")
        publish(pd.DataFrame(rows, columns=HOSTILE_NAMES), policy, out=tmp_path / f"{name}.tar", key=key)
    assert command("dp-learn", "compare", "one.tar", "two.tar", "--report").returncode == 0
    return tmp_path / "one+two.comparison" / "report.html"


def test_page_is_sound_in_both_schemes_and_on_a_phone(
    compared: Path, open_silent: Callable[..., Opened], take_picture: Callable[[Page, str], None]
) -> None:
    """The page is silent, has no violation in axe-core, fits 390 pixels, and draws both graphs."""
    for kind, size, scheme in (("light", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("phone", PHONE, "light")):
        page = open_silent(compared, size=size, scheme=scheme).page
        page.evaluate("async () => { await dpgraph.ready; await new Promise(requestAnimationFrame); }")
        take_picture(page, f"comparison {kind}")

        assert axe_violations(page) == []
        assert outside_the_window(page) == []
        assert page.locator("#graphs figure canvas").count() >= 2
        if kind == "light":
            assert keyboard_complaints(page) == []


def test_tables_can_be_read_without_scripts(compared: Path, open_silent: Callable[..., Opened]) -> None:
    """Every pair is in the table, and what the figures show is told in words."""
    page = open_silent(compared, scripts=False).page
    n_columns = len(HOSTILE_NAMES)

    assert page.locator("#differences-table tbody tr:visible").count() == n_columns * (n_columns - 1) // 2
    assert page.locator("#strengths-table tbody tr:visible").count() == n_columns
    assert page.locator("#graph-0-says").is_visible()
