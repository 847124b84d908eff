"""The exception tree: what a caller can rely on."""

import copy
import inspect
import math
import re
from itertools import pairwise

import pytest

from dp_bundle.base import errors
from dp_bundle.base.errors import DpGraphError

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
    expected = {"ParameterError": 2, "HeaderError": 2, "BundleError": 3, "EstimationError": 4, "BudgetExceededError": 5}
    for kind in CLASSES.values():
        codes = [code for base, code in expected.items() if issubclass(kind, CLASSES[base])]
        assert kind.exit_code == (codes[0] if codes else 1)


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (errors.ParameterError("mu", "in (0, inf)", -1), {"name": "mu", "allowed": "in (0, inf)", "received": -1}),
        (errors.ParameterError("--target", "a column"), {"received": None}),
        (errors.PolicyError("no bounds"), {"name": "policy", "allowed": "no bounds"}),
        (errors.MissingValuesError("age", of_moments=True), {"column": "age"}),
        (errors.BudgetExceededError("wine", 1, None, 2.5), {"dataset": "wine", "spent_mu": 1, "requested_mu": None}),
        (errors.BudgetExceededError("wine", None, 2, 2.5), {"spent_mu": None, "requested_mu": 2, "budget_mu": 2.5}),
        (errors.MissingBudgetError("wine", "row"), {"dataset": "wine", "unit": "row"}),
        (errors.UnsupportedVersionError("9", "1"), {"version": "9", "supported": "1"}),
        (errors.DigestMismatchError("README.md"), {"member": "README.md"}),
        (errors.UntrustedKeyError("ed25519:0", "not trusted"), {"fingerprint": "ed25519:0"}),
        (errors.EquivocationError("wine", 1, "a" * 9, "b" * 9), {"seen": "a" * 9, "received": "b" * 9}),
        (errors.OlderReleaseError("wine", 1, 2), {"dataset": "wine", "release": 1, "newest": 2}),
        (errors.NoSolutionError(0.1, lambda: 0.2), {"alpha": 0.1, "smallest_alpha": 0.2}),
        (errors.NoSolutionError(0.1, math.inf), {"smallest_alpha": math.inf}),
        (errors.NotConvergedError("stopped", "solution"), {"solution": "solution"}),
        (errors.DrownedColumnError(["a"], "drowned"), {"columns": ["a"]}),
    ],
)
def test_leaves_carry_their_facts_and_one_sentence(error: DpGraphError, facts: dict[str, object]) -> None:
    """Every error holds what it is about, also when a process sends it to another; its message is one line."""
    for each in (error, copy.copy(error)):
        assert {name: getattr(each, name) for name in facts} == facts
        assert str(each)
        assert "\n" not in str(each)


def test_parameter_errors_are_value_errors_and_others_are_not() -> None:
    """Callers who know only Python catch a wrong argument, or a closed bundle as a closed file, with ValueError."""
    found = {name for name, kind in CLASSES.items() if issubclass(kind, ValueError)}
    assert found == {"ParameterError", "PolicyError", "ClosedBundleError"}
    assert not any(issubclass(kind, OSError) for kind in CLASSES.values())
