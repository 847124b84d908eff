"""A check's result, what several attacks judge alike, and an audit's report, for a person and for a machine."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_audit.hypothesis_tests import correlated_signs, guessed_mu, n_repeats
from dp_bundle.base.errors import ParameterError
from dp_publish.accounting.conversions import SLACK

LEAST_RUNS, _MOST_RUNS = 1000, 1 << 20  # releases of a matrix
NOTHING_PROVED = "the coins were not guessed well enough to prove anything at this strength"


@dataclass(frozen=True)
class Check:
    """One check's result, in words that name the column where there is a fault."""

    name: str
    passed: bool
    detail: str


def runs_for(wanted: int | None, default: int, least: int = LEAST_RUNS) -> int:
    """Return how many releases are attacked; refuse a number that proves nothing, or takes for ever."""
    n = default if wanted is None else wanted
    if not least <= n <= _MOST_RUNS:
        raise ParameterError("canaries", f"from {least} to {_MOST_RUNS}", n)
    return n


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is none."""
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "in [0.5, 1), such as 0.9999", confidence)


@dataclass(frozen=True)
class Guesses:
    """Guesses at the coins of one unit, the mu that they prove, and the mu that is stated for it."""

    who: str
    correct: int
    total: int
    bound: float
    stated: float
    where: str = ""


def judge_guesses(guessed: Iterable[Guesses]) -> tuple[float, Check]:
    """Return the largest lower bound on mu that guesses prove, and the check that none exceeds what is stated."""
    best, faults, detail = 0.0, [], NOTHING_PROVED
    for each in guessed:
        if each.bound > best:
            share, best = each.correct / each.total, each.bound
            detail = f"{share:.1%} of {each.total} coins{each.where} guessed, which proves mu >= {best:.4g}"
        if each.bound > each.stated * SLACK:
            faults.append(f"{each.who} is told apart with mu >= {each.bound:.4g}, above the {each.stated:.4g} stated")
    return best, make_check("attack", faults, detail)


def check_guesses(correct: int, n: int, stated_mu: float, alpha: float) -> tuple[float, Check]:
    """Return the lower bound on mu that so many guesses of n coins prove, and the check that it is not too large."""
    bound = guessed_mu(correct, n, alpha)
    return judge_guesses([Guesses("a row", correct, n, bound, stated_mu)])


def check_signs(signs: Sequence[NDArray[np.int8]], alpha: float, twins: NDArray[np.int8] | None = None) -> Check:
    """Check that signs of noise are uncorrelated and that no stretch of noise occurs twice.

    Given are the signs of each run's noise, of shape (n_rows, n_columns), and those of rows with the same values, side
    by side.
    """
    repeats = n_repeats([part[:, index] for part in signs for index in range(part.shape[1])])
    faults = [f"{repeats} runs of 64 signs of noise occur again, as if random bits were used twice"] if repeats else []
    for some in (np.concatenate(signs), twins):
        if some is not None:
            excess, where = correlated_signs(some, alpha / 2)
            of_twins = " with the same raw values" if some is twins else ""
            faults += [f"noise is correlated between cells {where}{of_twins}"] if excess > 1 else []
    return make_check(
        "independence", faults, "no correlation of signs between columns or rows, and no noise is used twice"
    )


def make_check(name: str, faults: Sequence[str], detail: str) -> Check:
    """Return a check that fails with the first fault, if there is one."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return Check(name, not faults, f"{faults[0]}{more}" if faults else detail)


@dataclass(frozen=True)
class AuditReport:
    """The findings of an audit.

    `stated_mu` is what is promised for one unit; `mu_lower` is what the attack
    proves at this confidence. Of mechanisms attacked by their releases alone, `stated_epsilon` and
    `epsilon_lower` say the same of epsilon, at `stated_delta`, and the two mu are None. Where the policy's unit is an
    entity and `unit` is "row", all of that is of one of an entity's `max_rows` rows.
    """

    unit: Literal["cell", "row", "entity", "change"]
    stated_mu: float | None
    mu_lower: float | None
    confidence: float
    n_canaries: int
    checks: tuple[Check, ...]
    mechanism: str = "row"
    stated_epsilon: float | None = None
    stated_delta: float | None = None
    epsilon_lower: float | None = None
    max_rows: int = 1

    @property
    def findings(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)


def describe_audit(report: AuditReport) -> str:
    """Return the report for a person: what is stated, what was proved, and a line for each check."""
    what = f"the row mechanism with {report.n_canaries} made-up rows of each kind"
    if report.mechanism != "row":
        what = f"{report.n_canaries} covariance releases of made-up rows by the {report.mechanism} mechanism"
    label, stated, proved, at_delta = "stated mu", report.stated_mu or 0.0, report.mu_lower or 0.0, ""
    if report.stated_epsilon is not None:
        label, stated, proved = "epsilon", report.stated_epsilon, report.epsilon_lower or 0.0
        at_delta = f" at delta = {report.stated_delta:g}" if report.stated_delta else ""

    width = max([14, *(len(check.name) + 1 for check in report.checks)])
    lines = [
        f"attacked {what}; no data were read, nothing was spent",
        f"  {'unit':<{width}}{report.unit}{_of_entity(report)}",
        f"  {label:<{width}}{stated:.4g}{at_delta}",
        f"  {'lower bound':<{width}}{proved:.4g} ({proved / stated:.0%} of it)",
        f"  {'confidence':<{width}}{100 * report.confidence:g} %, for the bound and all checks together",
    ]
    for check in report.checks:
        mark = "ok  " if check.passed else "FAIL"
        if check.name == "attack" and check.passed and not proved:
            mark = "none"
        lines.append(f"  {check.name:<{width}}{mark}  {check.detail}")
    return "\n".join(lines)


def _of_entity(report: AuditReport) -> str:
    if report.unit != "row" or report.max_rows == 1:
        return ""
    return (
        f", one of the {report.max_rows} that an entity may have: an entity is promised as many times its mu or epsilon"
    )


def describe_failures(report: AuditReport) -> str:
    """Return what failed as one sentence; there must be something."""
    found = "; ".join(f"{check.detail} ({check.name})" for check in report.findings)
    return f"the audit failed: {found}: publish nothing with this mechanism"


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the report for a machine."""
    return {**asdict(report), "checks": [asdict(check) for check in report.checks], "passed": not report.findings}
