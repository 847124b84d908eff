"""A guarantee in the words of somebody who guesses."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_bundle.base.quoting import percent_at_most
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.costs import sound_mu
from dp_bundle.manifest.guarantee import Cumulative, Guarantee
from dp_bundle.privacy.normal import normal_tail

_KNOWN = {
    "cell": "the whole table but one cell, and that this cell holds one of two values",
    "change": "the whole table but for one person’s part of one cell, and that it was counted there or not",
    "row": "all rows but one, and that this one is one of two",
    "entity": "all rows but those of one {}, and that these are one of two sets of rows",
}


def chance_of_guess(guarantee: Guarantee, columns: Sequence[Column]) -> float:
    """Return the most that the probability of a right guess can be, of two possibilities as likely as each other.

    It is ``Phi(mu / 2)``, ``(e^epsilon + delta) / (1 + e^epsilon)``, and ``(1 + sqrt(1 - e^-rho)) / 2`` or
    ``(1 + sqrt(rho / 2)) / 2``, as the Kullback-Leibler divergence is at most rho; the least of what is implied. Where
    noise is discrete, mu follows from the release's columns, though the guarantee does not state it.

    References
    ----------
    Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2. Kairouz, Oh & Viswanath (2015), The
    composition theorem for differential privacy, theorem 2.1. Bun & Steinke (2016), Concentrated differential privacy,
    definition 1.1. Tsybakov (2009), Introduction to Nonparametric Estimation, lemmas 2.5 (Pinsker) and 2.6.
    """
    points = [(point.epsilon, point.delta) for point in guarantee.epsilon_delta]
    if guarantee.epsilon is not None:
        points.append((guarantee.epsilon, 0.0))
    chances = [1.0 - (1.0 - delta) / (1.0 + math.exp(min(epsilon, 700.0))) for epsilon, delta in points]
    chances.append(_implied(sound_mu(guarantee, columns), guarantee.rho))
    return min(1.0, min(chances) + guarantee.excepted_delta)


def chance_in_all(total: Cumulative) -> float | None:
    """Return the same for somebody who has all releases of the dataset so far; None without a guarantee in all."""
    return None if total.rho is None else min(1.0, _implied(total.mu, total.rho) + total.excepted_delta)


def describe_guess(guarantee: Guarantee, columns: Sequence[Column]) -> str:
    """Return one sentence that says what somebody could learn of one protected unit, never too little."""
    chance = percent_at_most(chance_of_guess(guarantee, columns))
    known = _KNOWN[guarantee.unit].format(f"“{guarantee.entity}”")
    if not guarantee.neighbours.n_rows_public:
        others = f"the rows of one “{guarantee.entity}”" if guarantee.unit == "entity" else "one more row"
        known = f"all other rows, and that {others} may be there or not"
    return (
        f"In words: somebody who knows {known}, each as likely as the other, guesses right in at most {chance} of "
        "cases after seeing this release, in place of 50 %."
    )


def describe_guess_in_all(total: Cumulative) -> str:
    """Return one sentence that says what somebody could learn from all releases of the dataset so far, together."""
    chance = chance_in_all(total)
    if chance is None:
        return "Somebody who has all of these releases may guess right every time."
    return (
        f"Somebody who has all of these releases guesses right in at most {percent_at_most(chance)} of cases, in place "
        "of 50 %."
    )


def _implied(mu: float | None, rho: float) -> float:
    """Return the chance that rho implies, or mu where it is known."""
    distance = min(math.sqrt(rho / 2.0), math.sqrt(-math.expm1(-rho)))
    return min(0.5 + 0.5 * distance, 1.0 if mu is None else 1.0 - normal_tail(mu / 2.0))
