"""What a series of releases costs, by the ledger's own rules, in sentences and for a machine.

A series is planned from one period's table: the same release, of a table like it in every period.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.quoting import quote
from dp_bundle.describe.sentences import chance_in_all, of_hundred
from dp_publish.accounting.conversions import Cost, epsilon_for_delta
from dp_publish.cli.messages.plan import numbers_of
from dp_publish.forecast.findings import describe_seen
from dp_publish.forecast.guarantees import promise_of
from dp_publish.forecast.outlook import DELTA, ForecastRow
from dp_publish.forecast.page.positions import at_mu
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import forecast_each, printed_epsilon, printed_mu, round_down, takes_mu
from dp_publish.ledger.budget import Account, Entry

_MOST = 1000  # releases


@dataclass(frozen=True)
class Spent:
    """What releases together cost one unit of privacy.

    Attributes
    ----------
    mu : float
        As mu of Gaussian differential privacy.
    epsilon : float
        At the delta of plans; nan where the guarantee fails more often than that.
    right_guesses : float
        The largest share of right guesses between two possibilities.
    """

    mu: float
    epsilon: float
    right_guesses: float


@dataclass(frozen=True)
class Series:
    """What so many releases cost one who has rows in some of the periods.

    Attributes
    ----------
    releases : int
        How many there are.
    in_one, in_all : Spent
        For a unit of privacy that is in one period alone, and for one that is in every period.
    ledger_mu, ledger_mu_without_partitions : float
        What the ledger counts for the series: with a partition for each release, and without.
    each_mu : float
        The mu of each release for which `in_all` has the mu of one release now.
    each : ForecastRow or None
        The forecast of one release at that mu; None where there is no such release.
    """

    releases: int
    in_one: Spent
    in_all: Spent
    ledger_mu: float
    ledger_mu_without_partitions: float
    each_mu: float
    each: ForecastRow | None


def series_of(plan: Plan, releases: int) -> Series:
    """Return what a series of releases costs that are like the one that a plan is about.

    Parameters
    ----------
    plan : Plan
        Of one period.
    releases : int
        How many there are, from 2 to 1000.

    Raises
    ------
    ParameterError
        There are fewer, or more.
    """
    if not 2 <= releases <= _MOST:
        raise ParameterError("--series", f"a number of releases from 2 to {_MOST}", releases)
    row, unit = plan.focus, plan.policy.privacy.account
    policy = plan.policy if row is plan.own else at_mu(plan, row.mu)
    guarantee, booked_mu = promise_of(policy, plan.kinds, lambda: plan.n_rows)
    rho = {} if guarantee.mu is not None else {unit: guarantee.rho}
    cost = Cost(unit, {unit: row.mu}, not rho, guarantee.excepted_delta, rho=rho)
    booked = replace(cost, mu={unit: booked_mu})

    in_one, in_all = (_spent(_account(cost, number), unit) for number in (1, releases))
    if plan.is_pure:
        in_all = replace(in_all, epsilon=min(in_all.epsilon, releases * row.epsilon))

    each_mu = row.mu / math.sqrt(releases)
    try:
        each, _ = forecast_each(plan.n_rows, plan.policy, plan.kinds, (each_mu,), plan.spread, plan.mechanism)
    except (ParameterError, PolicyError, PrivacyError):
        each = []
    return Series(
        releases,
        replace(in_one, epsilon=row.epsilon),
        in_all,
        _account(booked, releases, in_parts=True).mu(unit) or 0.0,
        _account(booked, releases).mu(unit) or 0.0,
        each_mu,
        each[0] if each else None,
    )


def _account(cost: Cost, releases: int, *, in_parts: bool = False) -> Account:
    """Return what the ledger makes of so many releases, each of a partition of its own or all of none."""
    return Account.of(Entry("", str(number) if in_parts else None, number, "", cost) for number in range(releases))


def _spent(account: Account, unit: str) -> Spent:
    mu, left = account.mu(unit) or 0.0, DELTA - account.excepted_delta
    chance = chance_in_all(account.total(unit, ()).model_copy(update={"mu": mu}))
    return Spent(mu, epsilon_for_delta(mu, left) if left > 0 else math.nan, 1.0 if chance is None else chance)


def describe_series(plan: Plan, series: Series) -> Iterator[str]:
    """Yield the sentences on a series for a person to read."""
    entity, mu = plan.policy.privacy.entity, printed_mu(plan.focus.mu)
    person = "A person" if entity is None else f"One {quote(entity.entity)}"
    rows = {"entity": "rows", "change": "one change of a cell"}.get(plan.unit, f"one {plan.unit}")
    yield f"A series of {series.releases} releases at mu = {mu}, one a period, each of a table like this:"
    yield f"{person} with {rows} in one period alone is protected as by one release: {_describe(series.in_one)}."
    yield (
        f"{person} with {rows} in every period is protected from all of them together by {_describe(series.in_all)}. "
        "In k of the periods, mu is sqrt(k) times that of one."
    )

    without = printed_mu(series.ledger_mu_without_partitions)
    if entity is None:
        yield (
            f"The ledger will count mu = {printed_mu(series.ledger_mu)} for the series if each release has a "
            f"--partition of its own, as it takes your word that nobody is in two of them; without, mu = {without}."
        )
    else:
        yield (
            f"The ledger will count mu = {without} for the series, with --partition or without, as it takes every "
            f"{quote(entity.entity)} to have rows in all periods."
        )
    noise = "" if takes_mu(plan.mechanism) else ", with gaussian noise"
    yield f"For mu = {mu} over the whole series, give each release mu = {round_down(series.each_mu)}{noise}."
    yield from _describe_each(plan, series.each)


def _describe(spent: Spent) -> str:
    epsilon = "" if math.isnan(spent.epsilon) else f" (epsilon = {printed_epsilon(spent.epsilon)} at delta {DELTA:g})"
    guessed = f"at most {of_hundred(spent.right_guesses)} of 100 guesses between two possibilities are right"
    return f"mu = {printed_mu(spent.mu)}{epsilon}, and {guessed}"


def _describe_each(plan: Plan, each: ForecastRow | None) -> Iterator[str]:
    """Yield what a release would show that is one of a series at the strength of one."""
    if each is None:
        yield "There is no such release: it would be refused."
        return
    if len(plan.kinds) == 1 or (plan.kind is not None and plan.kind.forecast_as is not None):
        return
    before, after = plan.focus.of(plan.release), each.of(plan.release)
    yield (
        f"In it, a correlation has a standard error of {after.error:.2g}, in place of {before.error:.2g}, and partial "
        f"correlations are seen from {describe_seen(after.seen)} on, in place of {describe_seen(before.seen)}."
        if after.seen is not None
        else f"It would show nothing: a correlation has a standard error of {after.error:.2g}, in place of "
        f"{before.error:.2g}."
    )


def series_document(series: Series) -> dict[str, Any]:
    """Return the series for a machine to read; what is no number is null."""
    document = asdict(series) | {"each": None if series.each is None else numbers_of(series.each)}
    for name in ("in_one", "in_all"):
        document[name]["delta"] = DELTA
        document[name]["epsilon"] = None if math.isnan(document[name]["epsilon"]) else document[name]["epsilon"]
    return document
