"""What a portal's page shows of second moments: pictures that anybody can read, of a bounded size."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.catalog import moments
from dp_bundle.catalog.making import make_catalog
from dp_bundle.catalog.moments import SCALE, draw_heat_map, survey_moments
from dp_bundle.cli.main import cli
from dp_bundle.portals.learned import Correlations

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>"


class Made:
    """A reader of many unrelated columns, but for the last two."""

    def __init__(self, p: int) -> None:
        values, errors = np.eye(p), np.full((p, p), 0.1)
        values[p - 2, p - 1] = values[p - 1, p - 2] = -0.8
        values[0, 1] = values[1, 0] = 0.3
        values[2] = values[:, 2] = errors[2] = errors[:, 2] = np.nan
        self.found = Correlations(tuple(f"c{i}" for i in range(p)), values, errors, 500, 99.6, are_estimates=False)

    def correlations(self, _: Any) -> Correlations:
        """Return them."""
        return self.found

    def network(self, _: Any) -> Any:
        """Return no graph."""
        raise EstimationError("there is no graph")


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


def test_the_page_has_a_map_a_graph_and_their_numbers(path: Path, tmp_path: Path) -> None:
    """Pictures have a title and a description, names from strangers are text, and tables hold the strongest pair."""
    make_catalog(path.parent, tmp_path / "site")
    (page,) = (tmp_path / "site").glob("datasets/*/release-1.html")
    text = page.read_text()
    assert HOSTILE not in text
    assert text.count("<svg") >= 2
    for kind in ("heat", "network"):
        assert f'aria-labelledby="{kind}-t {kind}-d"' in text
        assert f'<title id="{kind}-t">' in text
    with open_bundle(path) as bundle:
        facts = survey_moments(bundle)
    assert facts is not None
    assert {tuple(sorted(pair[:2])) for pair in facts["pairs"][:2]} == {(HOSTILE, "glucose"), (HOSTILE, "hdl")}
    assert {tuple(link[:2]) for link in facts["graph"]["links"]} >= {(0, 1), (0, 2)}


def test_the_page_offers_synthetic_rows_by_a_command_that_works(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the download beside the page, and writes rows under a name that says synthetic."""
    make_catalog(path.parent, tmp_path / "site")
    (page,) = (tmp_path / "site").glob("datasets/*/release-1.html")
    assert "however many are drawn, they cost no privacy" in page.read_text()
    (words,) = re.findall(r">dp-bundle (synthesize .*)</pre>", page.read_text())
    monkeypatch.chdir(page.parent)
    done = CliRunner().invoke(cli, [*words.split(), "--any-signer"])
    assert done.exit_code == 0, done.output
    (rows,) = page.parent.glob("*.synthetic.csv")
    assert len(rows.read_text().splitlines()) == 10_001


def test_sure_correlations_have_their_sign_and_unknown_ones_no_square(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six columns one is unknown: 25 squares, two signs on either side of the diagonal, and one sentence."""
    monkeypatch.setattr(moments, "find_reader", lambda: Made(6))
    with open_bundle(path) as bundle:
        facts = survey_moments(bundle)
    assert facts is not None
    assert facts["why"] == "there is no graph"
    picture = ElementTree.fromstring(str(draw_heat_map(facts["map"])).replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" '))  # noqa: S314
    paths = {each.attrib["class"]: each.attrib["d"] for each in picture.iter(f"{SVG}path")}
    assert sum(d.count("z") for name, d in paths.items() if name.startswith("s") and "sign" not in name) == 25
    assert paths[f"s{len(SCALE) - 1}"].count("z") == 5
    signs = "".join(d for name, d in paths.items() if "sign" in name)
    assert (signs.count("h"), signs.count("v")) == (4, 2)
    assert "Of 15 pairs, 2 have" in "".join(picture.itertext())


def test_a_portal_without_a_learner_shows_none_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made without the section."""
    monkeypatch.setattr(moments, "find_reader", lambda: None)
    make_catalog(path.parent, path.parent.with_name("site"))
    (page,) = path.parent.with_name("site").glob("datasets/*/release-1.html")
    assert 'id="correlations"' not in page.read_text()
    assert "dp-bundle synthesize" not in page.read_text()
