"""The exception tree: what a caller can rely on."""

import copy
import inspect

import pytest

from dp_bundle.base import errors
from dp_bundle.base.errors import DpGraphError

CLASSES = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and name.endswith("Error")}


def test_exit_codes_are_the_documented_ones() -> None:
    """2 for usage and a header in doubt, 3 for distrust, 4 for no answer, 5 for the budget, 1 for the rest."""
    expected = {"ParameterError": 2, "HeaderError": 2, "BundleError": 3, "EstimationError": 4, "BudgetExceededError": 5}
    for kind in CLASSES.values():
        codes = [code for base, code in expected.items() if issubclass(kind, CLASSES[base])]
        assert kind.exit_code == (codes[0] if codes else 1)


@pytest.mark.parametrize(
    "error",
    [
        errors.ParameterError("mu", "in (0, inf)", -1),
        errors.PolicyError("no bounds"),
        errors.MissingValuesError("age", of_moments=True),
        errors.BudgetExceededError("wine", None, 2, 2.5),
        errors.MissingBudgetError("wine", "row"),
        errors.UnsupportedVersionError("9", "1"),
        errors.DigestMismatchError("README.md"),
        errors.UntrustedKeyError("ed25519:0", "not trusted"),
        errors.EquivocationError("wine", 1, "a" * 9, "b" * 9),
        errors.OlderReleaseError("wine", 1, 2),
        errors.NoSolutionError(0.1, lambda: 0.2),
        errors.NotConvergedError("stopped", "solution"),
        errors.DrownedColumnError(["a"], "drowned"),
    ],
)
def test_leaves_carry_their_facts_and_one_sentence(error: DpGraphError) -> None:
    """Every error holds what it is about, also when a process sends it to another; its message is one line."""
    copied = copy.copy(error)
    assert vars(copied) == vars(error)
    assert str(copied) == str(error)
    assert "\n" not in str(error)


def test_parameter_errors_are_value_errors_and_others_are_not() -> None:
    """Callers who know only Python catch a wrong argument, or a closed bundle as a closed file, with ValueError."""
    found = {name for name, kind in CLASSES.items() if issubclass(kind, ValueError)}
    assert found == {"ParameterError", "PolicyError", "ClosedBundleError"}
    assert not any(issubclass(kind, OSError) for kind in CLASSES.values())
