"""What people read of categories, dates and changes: in sentences, in the label and in a registry's record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dp_bundle import open_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.describe.guessing import describe_guess
from dp_bundle.describe.meanings import column_meanings, describe_sources
from dp_bundle.describe.sentences import describe_noise
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.release import Release
from dp_bundle.portals.registry import registry_record
from dp_bundle.trust.judging import UnsafeTrustAnyone

GOLDEN = Path(__file__).parents[3] / "golden"


def _release(name: str) -> Release:
    with open_bundle(GOLDEN / f"bundle-{name}.tar", UnsafeTrustAnyone()) as bundle:
        return bundle.release


def test_dates_are_named_as_dates() -> None:
    """The bounds of a date, published as days, are written as people write dates."""
    release = _release("v4-mixed")
    (said,) = [each for each in describe_sources(release) if each.startswith("made")]
    assert said == "made is a date, in days since 1970-01-01, from 2020-01-01 to 2026-01-01."
    assert column_meanings(release)["made"].endswith("from 2020-01-01 to 2026-01-01.")


@pytest.mark.parametrize("kind", ["date", "time"])
def test_bounds_beyond_every_calendar_are_left_out(kind: str) -> None:
    """A signer may state any bounds; those that no calendar has are not written as dates, and nothing breaks."""
    release = _release("v4-mixed")
    source = release.sources[-1].model_copy(update={"kind": kind})
    column = release.columns[-1].model_copy(update={"bounds": (-1e308, 1e308)})
    changed = release.model_copy(update={"sources": (source,), "columns": (column,)})
    assert describe_sources(changed)[0].rstrip(".").endswith(("1970-01-01", "T00:00:00Z"))
    within = column.model_copy(update={"bounds": (0.0, 86_400.0)})
    expected = (
        "from 1970-01-01T00:00:00 to 1970-01-02T00:00:00." if kind == "time" else "from 1970-01-01 to 2206-07-23."
    )
    assert describe_sources(changed.model_copy(update={"columns": (within,)}))[0].endswith(expected)


def test_probabilities_are_of_each_other_level() -> None:
    """What randomised response is said to do adds up to one over all levels."""
    for name, others in (("size=small", 4), ("red", 1)):
        (column,) = [column for column in _release("v4-mixed").columns if column.name == name]
        said = re.fullmatch(
            r"randomised response, a level stays with probability (\S+) and becomes (each other one|the other) "
            r"with (\S+)",
            describe_noise(column),
        )
        assert said is not None
        assert (said[2] == "the other") == (others == 1)
        assert float(said[1]) + others * float(said[3]) == pytest.approx(1, abs=1e-5)


def test_category_is_listed_once_and_explained_on_the_label() -> None:
    """Descriptions name the noise of a category once, and the label says which levels its columns stand for."""
    release = _release("v4-mixed")
    said = Subject(release).noise
    assert [each.split(":")[0] for each in said] == [
        *("alcohol", "hue", "proline", "size", "maker", "red", "grade", "made"),
    ]
    assert set(describe_sources(release)) <= set(worded_label(release)["noise"])


def test_changes_are_told_as_what_one_person_adds() -> None:
    """A guess is about one person's part of a cell, and neighbours differ by what a column states."""
    release = _release("v4-changes")
    assert release.guarantee is not None
    assert "one person’s part of one cell, and that it was counted there or not, each as likely" in describe_guess(
        release.guarantee, release.columns
    )
    loss = registry_record(release)["deployment"]["privacy_loss"]
    assert loss["privacy_unit_details"].startswith(
        "Two tables are adjacent if they differ by a change of one cell by as"
    )
