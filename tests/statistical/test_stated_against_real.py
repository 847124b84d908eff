"""No figure that is stated promises more than the noise that was drawn keeps: 500 random policies, judged."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.statistical.stated_figures import Claim, UnknownFigureError, read_numbers, read_text
from tests.statistical.stating import Stated, Tally

ROUNDING = 1 + 1e-6  # to which the laws are computed here
KINDS = """
bounds found, continuous; bounds found, whole numbers; category, gaussian; continuous, cell; continuous,
entity; continuous, row; gaps, drop; gaps, indicator; gaps, midpoint; moments, add-remove; moments,
eigenvectors; moments, entity; moments, gaussian; moments, laplace; moments, replace-one; moments, row;
moments, scores; moments, two-round; moments, wishart; moments, wishart-difference; partition; randomised
response, cell; randomised response, entity; randomised response, row; rows, cell; rows, change; rows, entity;
rows, row; strength, epsilon; strength, mu; strength, rho; strength, sigma; whole numbers, cell; whole
numbers, change; whole numbers, entity; whole numbers, row
"""


def require_true(tally: Tally) -> None:
    """Fail unless no figure is exceeded by what it is of."""
    false = tally.above(ROUNDING)
    assert not false, "\n".join(map(str, false))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "number", "of_scores"),
    [
        (3, 20, False),
        (6, 3, True),
        *(pytest.param(seed, 250, False, marks=pytest.mark.long) for seed in (4, 5)),
        *(pytest.param(seed, 150, True, marks=pytest.mark.long) for seed in (7, 8)),
    ],
)
def test_no_figure_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch,
    key: Ed25519PrivateKey,
    tmp_path: Path,
    seed: int,
    number: int,
    of_scores: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """For so many random policies, of every kind if they are many, no figure is exceeded by what it is of."""
    stated = Stated(monkeypatch, key, tmp_path)
    stated.publish_many(seed, number, of_scores=of_scores)
    stated.read_books()
    stated.read_pages()
    require_true(stated.tally)
    record_property("largest", {kind: (each.ratio, each.claim.kind) for kind, each in stated.tally.by_kind.items()})
    if number < 100:
        return
    assert stated.tally.not_judged < 0.01 * sum(stated.tally.places.values())
    if of_scores:
        assert stated.tally.kinds.keys() >= {"moments, scores", "moments, row", "moments, cell", "moments, entity"}
        assert stated.tally.by_kind["moments, scores"].ratio > 0.9
    else:
        assert stated.tally.kinds.keys() >= {" ".join(kind.split()) for kind in KINDS.split(";")}


def test_a_figure_in_unknown_words_is_an_error() -> None:
    """A new sentence, or a new field, with a figure stops the test."""
    with pytest.raises(UnknownFigureError):
        read_text("Only 3 % of attackers succeed.", "a page")
    with pytest.raises(UnknownFigureError):
        read_numbers({"mu": 1.0, "strength": 3.0}, "a manifest", "own")
    assert read_text("rho = 0.5 (zero-concentrated differential privacy).", "x") == [Claim("rho", 0.5, "own", "x")]
