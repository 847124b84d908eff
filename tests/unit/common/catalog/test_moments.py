"""What a portal's page shows of second moments: pictures that anybody can read, of a bounded size."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.catalog import shown
from dp_bundle.catalog.making import make_catalog
from dp_bundle.catalog.shown import survey_links
from dp_bundle.catalog.vocabularies import describe_in
from dp_bundle.cli.main import cli

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def path(tmp_path: Path, key: Ed25519PrivateKey) -> Path:
    """Write a release of two rounds."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(2000, 4))
    values[:, 1] += values[:, 0]
    values[:, 2] -= values[:, 0]
    (tmp_path / "bundles").mkdir()
    names = [HOSTILE, "hdl", "glucose", "age"]
    return write_rounds(tmp_path / "bundles" / "t.tar", release_in_two_rounds(values, 3.0, rng), names, key)


def page_of(path: Path) -> Path:
    """Return the page of the one release in a site, made beside its folder."""
    site = path.parent.with_name("site")
    make_catalog(path.parent, site)
    return next(site.glob("datasets/*/release-1.html"))


def test_the_page_has_a_map_a_graph_and_their_numbers(path: Path, tmp_path: Path) -> None:
    """Pictures have a title and a description, names from strangers are text, and tables hold the strongest pair.

    Nobody counts in scales, and the signer has a name.
    """
    page = page_of(path)
    text = page.read_text()
    assert HOSTILE not in text
    assert text.count("<svg") >= 2
    for kind in ("heat", "network"):
        assert f'aria-labelledby="{kind}-t {kind}-d"' in text
        assert f'<title id="{kind}-t">' in text
    assert "<author><name>publisher (own key)</name>" in (tmp_path / "site" / "feed.xml").read_text()
    with open_bundle(path) as bundle:
        facts, said = survey_links(bundle), str(describe_in("datacite", bundle.release, []))
    assert "clipped to a range about their center, of" in said
    assert facts is not None
    assert {tuple(sorted(pair[:2])) for pair in facts["pairs"][:2]} == {(HOSTILE, "glucose"), (HOSTILE, "hdl")}
    assert {tuple(link[:2]) for link in facts["graph"]["links"]} >= {(0, 1), (0, 2)}


def test_the_page_offers_synthetic_rows_by_a_command_that_works(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the download beside the page, and writes rows under a name that says synthetic."""
    page = page_of(path)
    assert "However many are drawn, they cost no privacy" in page.read_text()
    (words,) = re.findall(r">dp-bundle (synthesize .*)</pre>", page.read_text())
    monkeypatch.chdir(page.parent)
    done = CliRunner().invoke(cli, [*words.split(), "--any-signer"])
    assert done.exit_code == 0, done.output
    (rows,) = page.parent.glob("*.synthetic.csv")
    assert len(rows.read_text().splitlines()) == 10_001


def test_no_mean_is_shown_of_a_column_that_the_noise_drowns() -> None:
    """It could lie anywhere, as in a table of 60 rows."""
    assert not shown.Seen(*np.array([[74.0], [np.nan], [np.nan]])).numbers(0, "number")


def test_a_portal_without_a_learner_shows_none_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made without the section."""
    monkeypatch.setattr(shown, "find_reader", lambda: None)
    page = page_of(path)
    assert 'id="correlations"' not in page.read_text()
    assert "dp-bundle synthesize" not in page.read_text()


def test_a_release_that_teaches_nothing_has_a_page_that_says_why(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be estimated, the columns are there all the same, and no command for rows."""

    def drowned(_: object) -> None:
        raise EstimationError("the noise drowns everything")

    monkeypatch.setattr(shown.find_reader(), "correlations", drowned)
    page = page_of(path)
    assert "Not everything could be learned: the noise drowns everything." in page.read_text()
    assert "dp-bundle synthesize" not in page.read_text()
