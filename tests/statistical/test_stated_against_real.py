"""No figure that is stated promises more than the noise that was drawn keeps: 500 random policies, judged."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.statistical.stated_figures import Claim, UnknownFigureError, read_numbers, read_text
from tests.statistical.stating import Stated, Tally

ROUNDING = 1 + 1e-6  # to which the laws are computed here
KINDS = """
bounds found, continuous; bounds found, whole numbers; category, gaussian; continuous, cell;
continuous, entity; continuous, row; gaps, drop; gaps, indicator; gaps, midpoint; moments,
add-remove; moments, eigenvectors; moments, entity; moments, gaussian; moments, kapralov-talwar; moments,
laplace; moments, replace-one; moments, row; moments, scores; moments, sulq; moments, two-round; moments, wishart;
moments, wishart-difference; partition; randomised response, cell; randomised response, entity; randomised response,
row; rows, cell; rows, change; rows, entity; rows, row; strength, epsilon; strength, mu; strength, rho; strength,
sigma; whole numbers, cell; whole numbers, change; whole numbers, entity; whole numbers, row
"""


def require_true(tally: Tally) -> None:
    """Fail unless no figure is exceeded by what it is of."""
    false = tally.above(ROUNDING)
    assert not false, "\n".join(map(str, false))


@pytest.mark.slow
def test_no_figure_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """For 25 random policies, no figure anywhere is exceeded by what it is of."""
    stated = Stated(monkeypatch, key, tmp_path)
    stated.publish_many(3, 25, every=8)
    stated.read_books()
    stated.read_pages()
    require_true(stated.tally)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "number"), [(4, 64), *(pytest.param(seed, 250, marks=pytest.mark.long) for seed in (4, 5))]
)
def test_no_figure_of_500_policies_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch,
    key: Ed25519PrivateKey,
    tmp_path: Path,
    seed: int,
    number: int,
    record_property: Callable[[str, object], None],
) -> None:
    """The same for 64, or 250 each, which have every kind of release; of the first two rare ones need not be there."""
    stated = Stated(monkeypatch, key, tmp_path)
    stated.publish_many(seed, number)
    stated.read_books()
    stated.read_pages()
    require_true(stated.tally)
    assert stated.tally.not_judged < 0.01 * sum(stated.tally.places.values())
    record_property("largest", {kind: (each.ratio, each.claim.kind) for kind, each in stated.tally.by_kind.items()})
    rare = {"moments, scores", "bounds found, whole numbers"} if number < 250 else set()
    assert stated.tally.kinds.keys() >= {" ".join(kind.split()) for kind in KINDS.split(";")} - rare


@pytest.mark.slow
def test_no_figure_of_scores_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The same for four releases by normal scores."""
    stated = Stated(monkeypatch, key, tmp_path)
    stated.publish_many(6, 4, every=4, of_scores=True)
    stated.read_books()
    require_true(stated.tally)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "number"), [(7, 25), *(pytest.param(seed, 150, marks=pytest.mark.long) for seed in (7, 8))]
)
def test_no_figure_of_300_releases_by_scores_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, tmp_path: Path, seed: int, number: int
) -> None:
    """The same for 25, or 150 each, of rows, cells and entities; and what is drawn is nearly all that is stated."""
    stated = Stated(monkeypatch, key, tmp_path)
    stated.publish_many(seed, number, of_scores=True)
    stated.read_books()
    stated.read_pages()
    require_true(stated.tally)
    assert stated.tally.kinds.keys() >= {"moments, scores", "moments, row", "moments, cell", "moments, entity"}
    assert stated.tally.by_kind["moments, scores"].ratio > 0.9


def test_a_figure_in_unknown_words_is_an_error() -> None:
    """A new sentence, or a new field, with a figure stops the test."""
    with pytest.raises(UnknownFigureError):
        read_text("Only 3 % of attackers succeed.", "a page")
    with pytest.raises(UnknownFigureError):
        read_numbers({"mu": 1.0, "strength": 3.0}, "a manifest", "own")
    assert read_text("rho = 0.5 (zero-concentrated differential privacy).", "x") == [Claim("rho", 0.5, "own", "x")]
