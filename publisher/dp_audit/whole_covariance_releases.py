"""Whole covariance releases attacked: made-up tables are published, and what a reader finds is judged.

Thousands of whole releases would take too long; the statistics on the mechanism (`moments`, `black_box`) stay. Beside
them, thirty whole releases show noise of the stated strength around the exact sums, where it acts entry by entry: the
sum of the squares, or magnitudes, of all entries is chi-squared. Of one Wishart matrix less another, entries that share
no coordinate are independent: those on the diagonal, and those of pairs of columns. The logarithms of the chances that
noise were larger add up to a chi-squared sum, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from dp_audit.books import check_books_of_moments
from dp_audit.canaries import values_inside
from dp_audit.checks import Check, check_signs, make_check, size_faults
from dp_audit.coded_moments import check_coding, without_sources
from dp_audit.made_up import chunked
from dp_audit.mechanisms import audit_moments
from dp_audit.noise_laws import EntryLaw, chi_squared_difference, entry_law
from dp_audit.press import Press, Published, made_up_policy, publish_made_up
from dp_audit.published_rounds import check_published_rounds
from dp_audit.replay import check_replay
from dp_audit.replayer import Limit, Replayer
from dp_audit.report import AuditReport
from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_bundle.manifest.matrix_noise import MatrixNoise, WishartDifferenceNoise, WishartNoise
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.policy.model import Policy

_RELEASES, _ROWS = 30, 25
_FOLLOWS_FROM_CHOICES = (  # in a release of two rounds, as each is of rows in the units that were chosen
    *("README.md", "standards", "column_clip", "radius", "constant", "granularity", "parameters", "fourth_moment"),
    *("diagonal_variance", "off_diagonal_variance"),
)


def audit_covariance(
    policy: Policy,
    kinds: dict[str, str],
    count_rows: Callable[[], int],
    press: Press,
    *,
    n_canaries: int | None = None,
    confidence: float = 0.9999,
    tell: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """Attack the mechanism that a policy sets, and whole releases by it.

    Parameters
    ----------
    policy : Policy
        For a covariance release.
    kinds : dict of str to str
        The columns.
    count_rows : callable
        Returns the number of rows that the release would have, where `auto` asks for it.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publish_aside`.
    n_canaries, confidence
        As in `audit_moments`.
    tell : callable
        Told the mechanism before the attack, which may take minutes.
    """
    mechanism = set_mechanism(policy, kinds, count_rows)
    tell(mechanism.name)
    report = audit_moments(mechanism, n_canaries=n_canaries, confidence=confidence)
    return replace(report, checks=(*report.checks, *check_whole(policy, kinds, mechanism, press, 1 - confidence)))


def check_whole(
    policy: Policy, kinds: dict[str, str], mechanism: Mechanism, press: Press, alpha: float
) -> tuple[Check, ...]:
    """Publish made-up tables by the mechanism that was set, and judge what a reader finds.

    Tables of the published columns' numbers are replayed (`check_replay`), and raw ones, where they differ
    (`check_coding`).
    """
    policy = made_up_policy(policy, kinds)
    chosen = policy.privacy.mechanism
    if policy.privacy.neighbours.n_rows_public:  # else `auto` must choose the same for made-up rows
        chosen = mechanism.name  # type: ignore[assignment]
    raw = policy.model_copy(update={"privacy": policy.privacy.model_copy(update={"mechanism": chosen})})
    policy = without_sources(raw, kinds) if raw.sources else raw

    # a made-up table of rows within their bounds
    columns = moment_columns(policy, kinds)
    rng = np.random.default_rng(1)
    values = np.column_stack(values_inside(columns, _ROWS, rng)).astype(np.float64)
    arrays = [pa.array(column) for column in values.T]
    unit = policy.privacy.entity
    owners = (unit.entity, pa.array(range(_ROWS))) if unit else None
    table = chunked(columns, arrays, owners)

    # whole releases, and the same by neighbours with the same random bits
    law, depends_on_data = entry_law(mechanism.noise), mechanism.draws_depend_on_data
    two_rounds = isinstance(mechanism, TwoRound)
    differences = issubclass(mechanism.noise, WishartDifferenceNoise)
    n = _RELEASES if law or differences else 1
    try:
        released = [publish_made_up(press, table, policy) for _ in range(n)]
    except (DpGraphError, ValidationError) as error:
        return (make_check("books", [f"made-up rows cannot be published: {error}"], ""),)
    hidden = ["README.md", "estimated_diagonal_error", "estimated_off_diagonal_error"] if depends_on_data else []
    steering = _FOLLOWS_FROM_CHOICES if two_rounds else ()
    hidden += steering
    if not policy.privacy.neighbours.n_rows_public:
        hidden += ["README.md", "n_rows"]
    limit = _limit(policy, mechanism, None if two_rounds else law)
    checks = [
        check_replay(Replayer(press, policy, hidden, not depends_on_data, steering), columns, limit),
        check_books_of_moments(policy, mechanism, released[0]),
    ]
    if raw.sources:
        replayer = Replayer(press, raw, hidden, not depends_on_data, steering)
        checks.append(check_coding(replayer, kinds, moment_columns(raw, kinds), mechanism, limit))

    # noise on entries shows itself around the exact sums
    if two_rounds:
        return check_published_rounds(released, values, alpha), *checks
    exact = moments_of_batch(values, mechanism.scaling).matrix
    public_rows = policy.privacy.neighbours.n_rows_public
    if differences:
        return _check_differences(released, exact, public_rows=public_rows, alpha=alpha), *checks
    if law is None:
        return tuple(checks)
    return _check_entries(released, law, exact, public_rows=public_rows, alpha=alpha), *checks


def _limit(policy: Policy, mechanism: Mechanism, law: type[EntryLaw] | None) -> Limit:
    """Return how far apart releases of neighbours may come out with the same random bits, and what measures that."""

    def by_entries(published: Published, moved: NDArray[np.float64]) -> float:
        scaled = moved / _scales(law, _stated(published).noise, len(moved)) if law else moved
        return law.size_of(scaled[np.triu_indices(len(moved))]) if law else 0.0

    def in_nuclear_norm(published: Published, moved: NDArray[np.float64]) -> float:
        noise = _stated(published).noise
        nuclear = _least_nuclear_norm(moved, noise.step)
        if isinstance(noise, WishartDifferenceNoise):
            return nuclear / (2 * noise.scale)
        return nuclear / noise.scale if isinstance(noise, WishartNoise) else math.inf

    strength = policy.privacy.strength
    if law is not None and strength is not None:
        return Limit(law.allowed(strength), by_entries)
    if issubclass(mechanism.noise, WishartDifferenceNoise) and strength is not None:
        return Limit(strength.pure_epsilon, in_nuclear_norm)
    if issubclass(mechanism.noise, WishartNoise):
        return Limit(mechanism.max_rows * mechanism.neighbours.nuclear, in_nuclear_norm)
    return Limit(0.0, lambda *_: 0.0)


def _least_nuclear_norm(moved: NDArray[np.float64], step: float) -> float:
    """Return the least nuclear norm of a symmetric matrix of which rounding may have moved every entry by a step.

    It is at least <U, M> for every U of spectral norm 1. Here U has the signs of the one or two largest eigenvalues, as
    the products of one row, or of two, have no others.
    """
    eigenvalues, vectors = np.linalg.eigh(moved)
    largest, least = np.argsort(-np.abs(eigenvalues))[:2], 0.0
    for chosen in (largest[:1], largest):
        signs = (vectors[:, chosen] * np.sign(eigenvalues[chosen])) @ vectors[:, chosen].T
        least = max(least, float(np.abs(eigenvalues[chosen]).sum() - step * np.abs(signs).sum()))
    return least


def _stated(published: Published) -> SecondMoments:
    if published.release.second_moments is None:
        raise PrivacyError("the audit failed: a covariance release does not describe its matrix")
    return published.release.second_moments


def _scales(law: type[EntryLaw], noise: MatrixNoise, d: int) -> NDArray[np.float64]:
    """Return the stated scale of every entry's noise."""
    return np.where(np.eye(d, dtype=bool), *law.sizes(noise))


def _check_entries(
    released: list[Published], law: type[EntryLaw], exact: NDArray[np.float64], *, public_rows: bool, alpha: float
) -> Check:
    """Check that entries, on and off the diagonal, are away from the exact sums by noise of the stated strength."""
    stated, d = _stated(released[0]), len(exact)
    noise = np.array([(one.values - exact) / _scales(law, stated.noise, d) for one in released])
    upper = np.triu_indices(d)
    free = np.ones(len(upper[0]), dtype=bool)
    free[-1] = not (public_rows and stated.constant)  # else the corner's entry is exact
    entries, diagonal = noise[:, upper[0], upper[1]][:, free], (upper[0] == upper[1])[free]

    faults = []
    for where, chosen in (("on", diagonal), ("beside", ~diagonal)):
        found = entries[:, chosen].ravel()
        if not len(found):
            continue
        faults += size_faults(f"{where} the diagonal", *law.chi_squared(found), alpha)

    independence = check_signs([np.sign(entries).astype(np.int8)], alpha / 4)
    faults += [] if independence.passed else [independence.detail]
    return make_check(
        "whole releases", faults, f"{len(released)} whole releases carry the noise stated around exact sums"
    )


def _check_differences(
    released: list[Published], exact: NDArray[np.float64], *, public_rows: bool, alpha: float
) -> Check:
    """Check that entries without a common coordinate carry independent noise of the difference of Wisharts stated."""
    stated = _stated(released[0])
    degrees, scale = (stated.parameters[name] for name in ("degrees_of_freedom", "scale"))
    step, d = stated.noise.step, len(exact)
    noise = np.rint(np.array([one.values - exact for one in released]) / step)
    free = np.arange(d - bool(public_rows and stated.constant))  # else the corner's entry is exact
    first = np.arange(0, d - 1, 2)
    on, beside = noise[:, free, free], noise[:, first, first + 1]

    faults = []
    laws = (chi_squared_difference(degrees, step / scale), chi_squared_difference(2 * degrees, 2 * step / scale))
    for where, found, cdf in (("on", on, laws[0]), ("beside", beside, laws[1])):
        size = np.abs(found.ravel())
        total = float(-2 * np.log(np.maximum(2 - cdf(size) - cdf(size - 1), 1e-12)).sum())
        faults += size_faults(f"{where} the diagonal", total, 2 * len(size), alpha)
        independence = check_signs([np.sign(found).astype(np.int8)], alpha / 4)
        faults += [] if independence.passed else [independence.detail]
    return make_check(
        "whole releases", faults, f"{len(released)} whole releases carry the noise stated around exact sums"
    )
