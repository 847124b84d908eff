"""The site of six bundles, and pages beside them, in the browser: light, dark, on a phone, on paper, without script."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect
from tests.browser.judging import LOOKS, faults
from tests.browser.opening import Opened
from tests.browser.printing import print_page

from dp_bundle import open_bundle
from dp_bundle.catalog.making import SiteSettings, make_catalog
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.store import TrustStore, new_key_pair
from dp_publish import Policy, load_key, publish
from dp_publish.cli.messages.release import write_page
from dp_publish.forecast.page.judging import make_page
from dp_publish.policy.columns import prepare
from dp_publish.sampling.keystream import insecure_keystream

pytestmark = pytest.mark.browser

HOSTILE = "<script>alert('title')</script><img src=x onerror=alert(1)>"
CLINIC = {"name": "clinic", "title": "Blood pressure in a clinic", "keywords": ["health"], "license": "CC-BY-4.0"}
HEBREW = {"name": "haifa", "title": "סקר משקי בית בחיפה", "description": "נתונים שהמציא מחשב."}
CHINESE = {"name": "身高体重", "title": "成年人身高与体重调查", "description": HOSTILE}
MOMENTS = {"name": "moments", "title": "Second moments of a clinic"}
ROWS = {"unit": "row", "mu": 1.0}
RELEASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("clinic-1.tar", CLINIC, {"mu": 1.0}),
    ("clinic-2.tar", CLINIC, ROWS),
    ("moments.tar", MOMENTS, {**ROWS, "release": "covariance", "mechanism": "gaussian"}),
    ("hebrew.tar", HEBREW, ROWS),
    ("chinese.tar", CHINESE, {"unit": "cell", "mu": 0.5}),
    ("scores.tar", {"name": "scores", "title": "Normal scores"}, {"scale": "scores", "mu": 3.0}),
]


PAGES = ["index", "clinic", "haifa", "scores", "moments.html", "clinic-2.judged.html", "scores.judged.html"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish six bundles, tamper with a copy of one, and make their site."""
    folder = tmp_path_factory.mktemp("portal")
    rng = np.random.default_rng(5)
    age = rng.normal(45, 15, 300)
    table = pd.DataFrame({"systolic": 80 + age + rng.normal(0, 4, 300), "gil גיל": age})
    table[HOSTILE] = rng.poisson(3, 300)
    columns: dict[str, Any] = {name: {"bounds": [0, 200], "unit": HOSTILE} for name in table}
    table["ward"] = rng.choice([HOSTILE, "b", "c"], 300)
    columns["ward"] = {"kind": "category", "categories": [HOSTILE, "b", "c"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(folder / "home"))
        new_key_pair()
        for file, dataset, privacy in RELEASES:
            policy = Policy.model_validate({"dataset": dataset, "privacy": privacy, "columns": columns})
            path = folder / "bundles" / file
            path.parent.mkdir(exist_ok=True)
            receipt = publish(table, policy, out=path, key=load_key(), keystream=insecure_keystream(7))
            write_page(receipt, policy)
            with open_bundle(path, UnsafeTrustAnyone()) as bundle:
                judged = make_page(bundle, prepare(table, policy))
            path.with_suffix(".judged.html").write_text(judged)
        content = bytearray((folder / "bundles" / "clinic-2.tar").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "bundles" / "tampered.tar").write_bytes(content)
        store = TrustStore()
        store.add(store.keys()[0].key, "Office of Examples")
        summary = make_catalog(folder / "bundles", folder / "site", SiteSettings("Open data of the office"), store)
    assert (summary.offered, summary.refused) == (6, 1)
    return folder / "site"


def page_of(site: Path, dataset: str, number: int = 1) -> Path:
    """Return the page of a release."""
    (found,) = site.glob(f"datasets/{dataset}-????????/release-{number}.html")
    return found


def titles(page: Page) -> list[str]:
    """Return the titles that the list shows."""
    return [each.inner_text() for each in page.locator("#list > li:not([hidden]) h3").all()]


@pytest.mark.parametrize("look", LOOKS, ids=["desk", "phone"])
@pytest.mark.parametrize(
    "name", ["index", "clinic", "haifa", "scores", "moments.html", "clinic-2.judged.html", "scores.judged.html"]
)
def test_every_page_is_sound(
    site: Path, name: str, look: dict[str, Any], open_silent: Callable[..., Opened], take_picture: Callable[..., None]
) -> None:
    """An axe-core run finds nothing, Tab reaches all controls, and the first screen answers what people ask."""
    beside = site.parent / "bundles" / name
    path = site / "index.html" if name == "index" else beside if beside.exists() else page_of(site, name)
    page = open_silent(path, **look).page
    take_picture(page, f"portal {name} {len(look)}")
    answers = (
        "() => [...document.querySelectorAll('.answers')].every(e => e.getBoundingClientRect().bottom <= innerHeight)"
    )
    assert page.evaluate(answers)
    assert faults(page) == []


def test_the_list_is_searched_filtered_and_ordered(site: Path, open_silent: Callable[..., Opened]) -> None:
    """Words and choices narrow the list, in any script, and the order can be chosen."""
    page = open_silent(site / "index.html").page
    assert len(titles(page)) == 5
    page.get_by_label("Search titles").fill("בחיפה")
    assert titles(page) == [HEBREW["title"]]
    expect(page.locator("#count")).to_have_text("1 of 5 datasets")
    page.get_by_label("Search titles").fill("")
    page.get_by_label("Kind of data").select_option("second moments")
    assert titles(page) == [MOMENTS["title"]]
    page.get_by_label("Kind of data").select_option("")
    page.get_by_label("Protects").select_option("one cell")
    assert titles(page) == [CHINESE["title"]]
    page.get_by_label("Protects").select_option("")
    page.get_by_label("Order").select_option("title")
    assert titles(page)[:2] == [CLINIC["title"], "Normal scores"]


def test_a_link_leads_to_the_label_and_a_download(site: Path, open_silent: Callable[..., Opened]) -> None:
    """The label says whom, how strongly, by whom and what not; what is downloaded has the digest that is shown."""
    page = open_silent(site / "index.html", files=site).page
    page.get_by_role("link", name=CLINIC["title"]).click()
    label = page.locator(".label")
    expect(label).to_contain_text("Protects one row. At most 69.2 % of guesses are right")
    for words in ("rho = 0.5 (zero-concentrated differential", "Office of Examples", "2 releases of this dataset"):
        expect(label).to_contain_text(words)
    assert label.locator("svg.guesses circle.gained").count() == 20 + 1
    with page.expect_download() as download:
        page.get_by_role("link", name="Download release 2").click()
    digest = hashlib.sha256(Path(download.value.path()).read_bytes()).hexdigest()
    expect(page.locator("#verify")).to_contain_text(digest)


def test_pages_read_without_a_script(site: Path, open_silent: Callable[..., Opened]) -> None:
    """Without scripts the list, the label and the histograms are there, and controls that would do nothing are not."""
    page = open_silent(site / "index.html", scripts=False).page
    assert len(titles(page)) == 5
    expect(page.locator("#finder")).to_be_hidden()
    page = open_silent(page_of(site, "clinic"), scripts=False).page
    expect(page.locator(".label svg.guesses").first).to_be_visible()
    assert page.locator("li svg.bars").count() == 3
    page = open_silent(page_of(site, "scores"), scripts=False).page
    expect(page.locator("svg.network")).to_be_visible()
    expect(page.locator("#narrow")).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download these links as CSV").click()
    assert "systolic,gil גיל,0.9" in Path(download.value.path()).read_text()


def test_links_are_narrowed_and_lines_are_copied(site: Path, open_silent: Callable[..., Opened]) -> None:
    """A column's neighbours are named, a strength hides weaker links in table and picture, and lines are selected."""
    page = open_silent(page_of(site, "scores")).page
    n_links = page.locator("#links-table tbody tr").count()
    page.get_by_label("Column", exact=True).select_option("systolic")
    expect(page.locator("#narrow-count")).to_contain_text("of systolic with gil גיל (+0.")
    page.get_by_label("Column", exact=True).select_option("")
    page.get_by_label("At least this strong").fill("1")
    expect(page.locator("#narrow-count")).to_contain_text(f"0 of {n_links} link")
    assert page.locator("svg.network .away").count() == n_links
    page.locator(".copy").nth(1).click()
    assert "learn_graph(bundle)" in page.evaluate("window.getSelection().toString()")


def test_hostile_texts_are_text(site: Path, open_silent: Callable[..., Opened]) -> None:
    """Markup in a description, a column's name and its unit is shown as it was written."""
    page = open_silent(page_of(site, "dataset")).page
    expect(page.locator("p.lead")).to_have_text(HOSTILE)
    for place in (".histograms h3", ".levels bdi"):
        assert HOSTILE in [each.inner_text() for each in page.locator(place).all()]
    assert page.locator("main img, main script").count() == 0


def test_the_page_beside_a_bundle_is_printed_with_its_record(
    site: Path, tmp_path: Path, open_silent: Callable[..., Opened]
) -> None:
    """On paper there are the label, what researchers will see, and the whole paragraph for a record of processing."""
    page = open_silent(site.parent / "bundles" / "clinic-2.html").page
    assert page.locator("svg.guesses[role=img] circle").count() == 100
    printed = " ".join(print_page(page, tmp_path / "beside.pdf").text.split())
    for words in ("What this release promises", "What researchers will see", "For a record of processing"):
        assert words in printed
    assert "of the manifest: " in printed
