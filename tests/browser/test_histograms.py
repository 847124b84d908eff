"""Histograms of a release by normal scores, in the report and in a portal: wide, on a phone, light and dark."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page
from tests.browser.judging import axe_violations, outside_the_window
from tests.browser.opening import PHONE, Opened

from dp_bundle import open_bundle
from dp_bundle.catalog.making import SiteSettings, make_catalog
from dp_bundle.trust.keys import new_key_pair
from dp_bundle.trust.store import TrustStore
from dp_learn import learn_graph
from dp_publish import Policy, load_key, publish
from dp_publish.sampling.keystream import insecure_keystream

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
COLUMNS = {
    "income": {"kind": "continuous", "missing": "indicator"},
    "visits": {"kind": "integer"},
    HOSTILE: {"kind": "category", "categories": ["north", "<b>south</b>", "east"]},
    "member": {"kind": "boolean"},
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Publish a mixed table by normal scores, and make its report and a portal's site."""
    folder = tmp_path_factory.mktemp("histograms")
    rng = np.random.default_rng(5)
    shared = rng.normal(size=4000)
    table = pd.DataFrame(
        {
            "income": np.where(rng.random(4000) < 0.1, np.nan, np.exp(8 + shared)),
            "visits": rng.poisson(np.exp(0.5 * shared)),
            HOSTILE: rng.choice(["north", "<b>south</b>", "east"], 4000),
            "member": shared + rng.normal(size=4000) > 0,
        }
    )
    policy = Policy.model_validate(
        {"dataset": {"name": "clinic"}, "privacy": {"release": "copula", "mu": 1.0}, "columns": COLUMNS}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(folder / "home"))
        new_key_pair()
        (folder / "bundles").mkdir()
        path = folder / "bundles" / "clinic.tar"
        publish(table, policy, out=path, key=load_key(), keystream=insecure_keystream(7))
        with open_bundle(path) as bundle:
            report = learn_graph(bundle).report(folder / "report.html")
        store = TrustStore()
        store.add(store.keys()[0].key, "Office of Examples")
        make_catalog(folder / "bundles", folder / "site", SiteSettings("Open data of the office"), store)
    (release,) = (folder / "site").glob("datasets/clinic-????????/release-1.html")
    return {"report": report, "portal": release}


@pytest.mark.parametrize("page", ["report", "portal"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), PHONE])
def test_histograms_are_seen_and_said(
    page: str,
    scheme: str,
    size: tuple[int, int],
    pages: dict[str, Path],
    open_silent: Callable[..., Opened],
    take_picture: Callable[[Page, str], None],
) -> None:
    """Every column has a picture with words; nothing runs, nothing is cut off, and axe finds nothing."""
    opened = open_silent(pages[page], size=size, scheme=scheme).page
    pictures = opened.locator(".histograms li")
    assert pictures.count() == len(COLUMNS)
    said = [text.replace("\n", " ") for text in pictures.all_inner_texts()]
    assert "median" in said[0]
    assert "no value" in said[0]
    assert "<b>south</b>" in said[2]
    assert opened.locator(".histograms svg[role=img][aria-label]").count() == len(COLUMNS)
    assert "noisy values, as published" not in opened.locator("body").inner_text()  # which is said of rows
    assert axe_violations(opened) == []
    assert outside_the_window(opened) == []
    take_picture(opened, f"histograms {page} {scheme} {size[0]}")
