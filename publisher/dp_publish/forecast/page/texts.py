"""The page's texts on one strength, one by one; the slider puts those of another in their place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_bundle.base.quoting import percent_at_least, percent_at_most, round_up
from dp_publish.accounting.trade_off import TradeOff
from dp_publish.forecast.findings import describe_seen
from dp_publish.forecast.outlook import TARGETS, ForecastRow
from dp_publish.forecast.page.budget import budget_sentence
from dp_publish.forecast.page.command_lines import Asked, moments_line, publish_line
from dp_publish.forecast.page.positions import Position
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.power import describe_count
from dp_publish.forecast.printed import printed_mu
from dp_publish.forecast.refusal import why_hidden

CANDIDATES = (2, 10, 1000, 1_000_000)
SHARES = (0.05, 0.001)  # of releases, in which odds may rise by more
FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_NO_LIMIT = 1e9  # of odds
_REFUSED = {
    "hidden": "dp-publish would refuse this release, as it would show nothing; --anyway insists.",
    "unchanged": "dp-publish would refuse this release, as noise so weak leaves whole numbers as they are; --anyway "
    "insists.",
}


def texts_of(plan: Plan, asked: Asked, position: Position) -> dict[str, str]:
    """Return the texts of one strength by their names in the template."""
    row, trade_off = position.row, position.protection.trade_off
    texts = {
        "mu": printed_mu(row.mu),
        "own": "the policy’s own strength" if position.is_own else "",
        "seen-rows": _seen(row.seen_in_rows) if row.rows_possible and row.rows_needed else "–",
        "seen-moments": _seen(row.seen_in_moments) if row.rows_needed_for_moments else "–",
        "error-rows": _figure(row.error_in_rows),
        "error-moments": _figure(row.error_in_moments),
        "drowned-rows": _of(row.drowned_in_rows, len(plan.kinds)),
        "drowned-moments": _of(row.drowned_in_moments, len(plan.kinds)),
        "shows": _shows(plan, row),
        "budget": budget_sentence(asked.account, position),
        "refused": _REFUSED.get(position.pointless or "", ""),
        "line": publish_line(plan, asked, position),
        "moments-line": moments_line(asked, row.mu),
        "strength": _strength(position),
        "noise": _noise(row) if plan.release == "rows" else "",
    }
    for rho in TARGETS:
        texts[f"need-{rho:g}-rows"] = _count(row.rows_needed, rho)
        texts[f"need-{rho:g}-moments"] = _count(row.rows_needed_for_moments, rho)
    pairs = position.protection.guarantee.neighbours.n_rows_public  # or else any two are two steps apart
    texts["guess-two"] = percent_at_most(trade_off.right_of_two)
    for candidates in CANDIDATES:
        texts[f"guess-{candidates}"] = percent_at_most(trade_off.right_among(candidates, neighbours=pairs))
    for share in SHARES:
        texts[f"belief-{share:g}"] = _belief(trade_off, share)
    for alpha in FALSE_ALARMS:
        texts[f"power-{alpha:g}"] = percent_at_most(trade_off.power(alpha))
        texts[f"miss-{alpha:g}"] = percent_at_least(trade_off.type_2(alpha))
    shown = {name: text for name, text in texts.items() if row.moments_possible or "moments" not in name}
    return {**shown, **_curve(position)}


def trade_off_points(trade_off: TradeOff, alphas: Sequence[float]) -> list[float]:
    """Return type II errors for a figure, rounded down."""
    return [math.floor(trade_off.type_2(alpha) * 1e5) / 1e5 for alpha in alphas]


def _seen(rho: float | None) -> str:
    return "nothing" if rho is None else f"{rho:.2g} and above"


def _figure(error: float) -> str:
    if math.isnan(error):
        return "–"
    return f"{error:.2g}" if error < 100 else f"{error:,.0f}"


def _of(number: int | None, n_columns: int) -> str:
    return "–" if number is None else f"{number} of {n_columns}"


def _count(needed: object, rho: float) -> str:
    return describe_count(needed[rho]) if isinstance(needed, dict) and rho in needed else "–"


def _shows(plan: Plan, row: ForecastRow) -> str:
    """Return a sentence or two on what the plan's release would show, and what the other one would."""
    p = len(plan.kinds)
    if p == 1:
        return "A single column has no partial correlation to see."
    moments = f"Second moments would show {_partial(row.seen_in_moments)}." if row.moments_possible else ""
    if plan.release == "covariance":
        if plan.kind is not None and plan.kind.forecast_as is not None:
            return f"What {plan.mechanism} noise would show depends on the values; the numbers stand for laplace noise."
        return moments.replace("Second moments would", "This release of second moments would")
    rows = f"Noisy rows would show {_partial(row.seen_in_rows)}"
    why = f": {why_hidden(plan.n_rows, p, row, 'rows')}" if row.seen_in_rows is None else ""
    return f"{rows}{why}. {moments}".rstrip()


def _partial(rho: float | None) -> str:
    return "nothing" if rho is None else f"partial correlations from about {describe_seen(rho)} on"


def _noise(row: ForecastRow) -> str:
    """Return how large the noise on a typical cell is."""
    share = row.sigma_over_width
    width = f"{share:.3g} times the width" if share >= 1 else f"{100 * share:.3g} % of the width"
    return (
        f"The noise on a typical cell has a standard deviation of {width} of its bounds, and {row.noise_to_signal:.3g} "
        "times the assumed variance of the values."
    )


def _strength(position: Position) -> str:
    """Return the guarantee's strength in the words of the field."""
    guarantee = position.protection.guarantee
    if guarantee.epsilon is not None:
        excepted = f", except with a probability of {round_up(guarantee.excepted_delta, 3)}"
        pure = "" if guarantee.excepted_delta else "pure "
        return (
            f"epsilon = {round_up(guarantee.epsilon, 4)} ({pure}differential privacy)"
            f"{excepted if guarantee.excepted_delta else ''}, which implies mu = {round_up(position.row.mu, 4)}"
        )
    mu = position.protection.booked_mu if guarantee.mu is None else guarantee.mu
    rho = f"rho = {round_up(guarantee.rho, 4)} (zero-concentrated differential privacy)"
    return f"mu = {round_up(mu, 4)} (Gaussian differential privacy), {rho}"


def _belief(trade_off: TradeOff, share: float) -> str:
    """Return a sentence on how far belief in the truth rises, but for a share of releases."""
    factor, often = trade_off.odds_factor(share), round(1.0 / share)
    if factor > _NO_LIMIT:
        return f"In 1 of {often:,} releases, the attacker may become as good as certain of the truth."
    belief = percent_at_most(factor / (factor + 999.0))
    return (
        f"In at least {often - 1:,} of {often:,} releases, the attacker’s odds on the truth grow by at most a factor "
        f"of {_rounded_up(factor)}: a suspicion of 1 in 1,000 becomes {belief} or less."
    )


def _rounded_up(value: float) -> str:
    if value >= 1e6:
        return round_up(value, 2)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step * (1 - 1e-12)) * step:,.{max(0, -round(math.log10(step)))}f}"


def _curve(position: Position) -> dict[str, str]:
    """Return the cells of the (epsilon, delta) table."""
    return {
        f"epsilon-{point.delta:g}": round_up(point.epsilon, 4) for point in position.protection.guarantee.epsilon_delta
    }
