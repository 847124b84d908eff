"""The exception tree: what a caller can rely on."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise

import pytest

from dp_bundle.base import errors
from dp_bundle.base.errors import (
    BudgetExceededError,
    BundleError,
    DataError,
    DigestMismatchError,
    DpGraphError,
    DrownedColumnError,
    EquivocationError,
    EstimationError,
    HeaderError,
    KeyStoreError,
    MissingBudgetError,
    MissingValuesError,
    NoSolutionError,
    NotConvergedError,
    OlderReleaseError,
    ParameterError,
    PolicyError,
    PrivacyError,
    UnsupportedVersionError,
    UntrustedKeyError,
)

CLASSES = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and name.endswith("Error")}


def test_docstring_draws_the_tree_that_exists() -> None:
    """Every class is drawn below its parent, and nothing else is drawn."""
    drawn = re.findall(r"^( +)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    assert [name for _, name in drawn] == list(CLASSES)
    parents: list[tuple[int, str]] = []
    for spaces, name in drawn:
        parents = [parent for parent in parents if parent[0] < len(spaces)]
        if parents:
            assert CLASSES[name].__mro__[1] is CLASSES[parents[-1][1]]
        parents.append((len(spaces), name))
    assert all(left[0] < right[0] for left, right in pairwise(parents))


def test_exit_codes_are_the_documented_ones() -> None:
    """2 for usage and a header in doubt, 3 for distrust, 4 for no answer, 5 for the budget, 1 for the rest."""
    expected = {ParameterError: 2, HeaderError: 2, BundleError: 3, EstimationError: 4, BudgetExceededError: 5}
    for kind in CLASSES.values():
        codes = [code for base, code in expected.items() if issubclass(kind, base)]
        assert kind.exit_code == (codes[0] if codes else 1)


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (ParameterError("mu", "in (0, inf)", -1), {"name": "mu", "allowed": "in (0, inf)", "received": -1}),
        (PolicyError("bounds are missing"), {"name": "policy"}),
        (MissingValuesError("age"), {"column": "age"}),
        (MissingValuesError("age", of_moments=True), {"column": "age"}),
        (
            BudgetExceededError("wine", 1.0, 2.0, 2.5),
            {"dataset": "wine", "spent_mu": 1, "requested_mu": 2, "budget_mu": 2.5},
        ),
        (MissingBudgetError("wine", "row"), {"dataset": "wine", "unit": "row"}),
        (UnsupportedVersionError("9", "1"), {"version": "9", "supported": "1"}),
        (DigestMismatchError("README.md"), {"member": "README.md"}),
        (UntrustedKeyError("ed25519:0", "not trusted"), {"fingerprint": "ed25519:0"}),
        (EquivocationError("wine", 1, "a" * 64, "b" * 64), {"dataset": "wine", "release": 1, "received": "b" * 64}),
        (OlderReleaseError("wine", 1, 2), {"dataset": "wine", "release": 1, "newest": 2}),
        (NoSolutionError(0.1, 0.2), {"alpha": 0.1, "smallest_alpha": 0.2}),
        (NotConvergedError("stopped", "solution"), {"solution": "solution"}),
        (DrownedColumnError(["a"], "drowned"), {"columns": ["a"]}),
    ],
)
def test_leaves_carry_their_facts_and_one_sentence(error: DpGraphError, facts: dict[str, object]) -> None:
    """Every error holds what it is about, and its message is one line that names it."""
    assert {name: getattr(error, name) for name in facts} == facts
    assert "\n" not in str(error)
    assert str(error)


@pytest.mark.parametrize(
    ("spent", "requested", "message"),
    [(1.0, 2.0, "has spent mu = 1 of its budget of 2.5"), (1.0, None, "would void"), (None, 2.0, "does not protect")],
)
def test_budget_error_says_why(spent: float | None, requested: float | None, message: str) -> None:
    """No room, a release without a guarantee, and books without one, are three different sentences."""
    assert message in str(BudgetExceededError("wine", spent, requested, 2.5))


def test_parameter_errors_are_value_errors_and_others_are_not() -> None:
    """Callers who know only Python catch a wrong argument, or a closed bundle as a closed file, with ValueError."""
    found = {name for name, kind in CLASSES.items() if issubclass(kind, ValueError)}
    assert found == {"ParameterError", "PolicyError", "ClosedBundleError"}
    assert not any(issubclass(kind, OSError) for kind in (DataError, PrivacyError, KeyStoreError, BundleError))


def test_where_nothing_came_nothing_is_quoted() -> None:
    """A missing argument is told by what it must be; one that is None, from Python, is quoted like any other."""
    assert str(ParameterError("--target", "a column")) == "--target must be a column"
    assert str(ParameterError("sigma", "a number", None)) == "sigma must be a number, not None"
