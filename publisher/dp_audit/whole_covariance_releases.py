"""Whole covariance releases attacked: made-up tables are published, and what a reader finds is judged.

Thousands of whole releases would take too long; the statistics on the mechanism alone, attacked as is best (step by
step, entry by entry, or from outside), stay. Beside them, thirty whole releases show noise of the stated strength
around the exact sums, where it acts entry by entry: the sum of the squares, or magnitudes, of all entries is
chi-squared.

Of two rounds the exact sums are computed here from what a release states, and nothing of `covariance.two_rounds` is
used: raw values are clipped, standardised, transformed and shortened in plain floating-point arithmetic, as the format
says it of bounds, asinh, standards, column clip, transform and radius. That differs from the release's integers by far
less than the noise. Of a release by normal scores, rows are counted first, by comparing each with every end of a cell,
and where it has levels, rows are raw ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.black_box import attack_from_outside
from dp_audit.books import check_books_of_moments
from dp_audit.canaries import in_batches, raw_table, values_inside
from dp_audit.checks import Check, check_confidence, check_whole_releases, make_check
from dp_audit.coding import check_coding, without_sources
from dp_audit.covariance_attack import attack_moments
from dp_audit.noise_laws import EntryLaw, entry_law
from dp_audit.press import (
    UNPUBLISHED,
    Limit,
    Press,
    Published,
    Replayer,
    Rounds,
    made_up_policy,
    not_published,
    publish_made_up,
)
from dp_audit.raw_cells import any_states, raw_cells, tables_of
from dp_audit.replay import check_replay
from dp_audit.report import AuditReport
from dp_audit.step_attack import attack_steps
from dp_audit.step_noise import noise_of_counts
from dp_bundle.base.errors import PrivacyError
from dp_bundle.data.margins import Margin, middle_scores
from dp_bundle.manifest.columns import Asinh, Column, Scores
from dp_bundle.manifest.matrix_noise import NoisyMatrix, WishartDifferenceNoise, WishartNoise
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.covariance.mechanisms.base import Mechanism, OneSum
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.policy.model import Policy

_RELEASES, _ROWS = 30, 25
_COUNTED = 400  # rows, where their histograms are released
_FOLLOWS_FROM_CHOICES = (  # in a release of two rounds, as each is of rows in the units that were chosen
    "transform",  # of a column
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


def audit_moments(mechanism: Mechanism, *, n_canaries: int | None = None, confidence: float = 0.9999) -> AuditReport:
    """Attack a covariance mechanism and test its noise: see `step_attack`, `covariance_attack` and `black_box`.

    Parameters
    ----------
    mechanism : Mechanism
        As a policy sets it. Of an entity, one row is attacked.
    n_canaries : int, optional
        How many releases of made-up rows are attacked, from 1000 to 2^20.
    confidence : float
        In [0.5, 1).

    Raises
    ------
    ParameterError
        `n_canaries` or `confidence` is outside its range.
    PrivacyError
        It would take hours.
    """
    check_confidence(confidence)
    if isinstance(mechanism, TwoRound):
        return attack_steps(mechanism, n_runs=n_canaries, confidence=confidence)
    if not isinstance(mechanism, OneSum):
        raise PrivacyError(f"there is no audit of the {mechanism.name} mechanism")
    attack = attack_from_outside if entry_law(mechanism.noise) is None else attack_moments
    return attack(mechanism, n_runs=n_canaries, confidence=confidence)


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
    as_raw = policy.privacy.has_margins and bool(raw.sources)
    n_rows = _COUNTED if policy.privacy.has_margins else _ROWS
    if as_raw:
        table, values = _raw_rows(raw, moment_columns(raw, kinds), n_rows)
    else:
        table, values = _rows_of_numbers(policy, columns, n_rows)

    # whole releases, and the same by neighbours with the same random bits
    law, depends_on_data = entry_law(mechanism.noise), mechanism.draws_depend_on_data
    two_rounds = isinstance(mechanism, TwoRound)
    try:
        released = [publish_made_up(press, table, raw if as_raw else policy) for _ in range(_RELEASES if law else 1)]
    except UNPUBLISHED as error:
        return (make_check("books", [not_published(error)], ""),)
    hidden = ["README.md", "estimated_diagonal_error", "estimated_off_diagonal_error"] if depends_on_data else []
    steering: tuple[str, ...] = _FOLLOWS_FROM_CHOICES if two_rounds else ()
    steering += ("row groups",) if policy.privacy.has_margins else ()  # of cells around what was found
    hidden += steering
    public_rows = policy.privacy.neighbours.n_rows_public
    hidden += [] if public_rows else ["README.md", "n_rows"]
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
        return _check_rounds(released, values, alpha), *checks
    exact = moments_of_batch(values, mechanism.scaling).matrix
    exact_corner = public_rows and _stated(released[0]).constant
    if law is None:
        return tuple(checks)
    return _check_entries(
        released, law, exact, len(np.triu_indices(len(exact))[0]) - bool(exact_corner), alpha
    ), *checks


def _rows_of_numbers(policy: Policy, columns: Sequence[Column], n_rows: int) -> tuple[pa.Table, NDArray[np.float64]]:
    """Return a table of numbers within their bounds, and its rows."""
    values = np.column_stack(values_inside(columns, n_rows, np.random.default_rng(1))).astype(np.float64)
    names = [column.name for column in columns]
    return in_batches(raw_table(policy, dict(zip(names, map(pa.array, values.T), strict=True)))), values


def _raw_rows(policy: Policy, columns: Sequence[Column], n_rows: int) -> tuple[pa.Table, NDArray[np.float64]]:
    """Return a raw table of cells in any of their states, and its rows as numbers, with NaN in gaps that are shown."""
    cells = raw_cells(policy.sources, columns)
    states = any_states(cells, n_rows, np.random.default_rng(1))
    numbers = [cell.numbers[own] for cell, own in zip(cells, states.T, strict=True)]
    for cell, found in zip(cells, numbers, strict=True):
        if cell.columns[0].missing == "indicator":
            found[found[:, 1] == 1.0, 0] = math.nan
    return tables_of(policy, cells, states)[0], np.hstack(numbers)


def _limit(policy: Policy, mechanism: Mechanism, law: EntryLaw | None) -> Limit:
    """Return how far apart releases of neighbours may come out with the same random bits, and what measures that."""

    def by_entries(published: Published, moved: NDArray[np.float64]) -> float:
        scaled = moved / law.scales(_stated(published).noise, len(moved)) if law else moved
        return law.size_of(scaled[np.triu_indices(len(moved))]) if law else 0.0

    def in_nuclear_norm(published: Published, moved: NDArray[np.float64]) -> float:
        noise = _stated(published).noise
        nuclear = _least_nuclear_norm(moved, noise.granularity)
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


def _check_entries(
    released: list[Published], law: EntryLaw, exact: NDArray[np.float64], n_free: int, alpha: float
) -> Check:
    """Check that entries, on and off the diagonal, are away from the exact sums by noise of the stated strength."""
    upper = np.triu_indices(len(exact))
    scales = law.scales(_stated(released[0]).noise, len(exact))
    entries = np.array([((one.values - exact) / scales)[upper][:n_free] for one in released])
    diagonal = (upper[0] == upper[1])[:n_free]
    found = [(where, entries[:, chosen].ravel()) for where, chosen in (("on", diagonal), ("beside", ~diagonal))]
    sizes = [(f"{where} the diagonal", *law.chi_squared(noise)) for where, noise in found if len(noise)]
    return check_whole_releases(len(released), sizes, [np.sign(entries).astype(np.int8)], alpha, "exact sums")


def _check_rounds(released: Sequence[Published], values: NDArray[np.float64], alpha: float) -> Check:
    """Check that releases of the same rows carry noise of the stated size in both rounds, and on the lengths."""
    parts = [np.array(part) for part in zip(*(_noise_of_rounds(one, values) for one in released), strict=True)]
    where = ("on the diagonal", "beside the diagonal", "on lengths")
    sizes = [(name, float(np.sum(noise**2)), noise.size) for name, noise in zip(where, parts, strict=True)]
    margins = released[0].release.margins
    if margins is not None:
        counts, rng = [_noise_of_margins(one, values) for one in released], np.random.default_rng()
        noise = noise_of_counts(np.concatenate([part for run in counts for part in run]), margins.sigma, rng)
        sizes.append(("on counts", float(noise @ noise), len(noise)))
        parts.append(np.array([[part[0] for part in run] for run in counts]))  # of each column's first cell
    signs = np.sign(np.column_stack(parts)).astype(np.int8)
    return check_whole_releases(len(released), sizes, [signs], alpha, "the exact sums of both rounds")


def _noise_of_rounds(
    published: Published, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what a release of these rows carries, in stated standard deviations.

    Returns
    -------
    diagonal, beside : ndarray
        The noise of both rounds' entries, without the constant's own, which is exact.
    lengths : ndarray, shape (1,)
        That of the sum of lengths to the fourth.
    """
    stated, rounds = published.release.second_moments, published.rounds
    if rounds is None or stated is None or stated.first_round is None or stated.fourth_moment is None:
        raise PrivacyError("the audit failed: a release of two rounds does not describe both")
    first, second = _standardised(published, rounds, values)
    diagonal, beside = zip(
        _noise(rounds.first, _shortened(first, stated.first_round.radius), stated.first_round),
        _noise(published.values, _shortened(second, stated.radius), stated),
        strict=True,
    )
    shares = np.minimum(np.linalg.norm(second, axis=1) / stated.radius, 1.0)
    lengths = (stated.fourth_moment.total - float(np.sum(shares**4))) / stated.fourth_moment.sigma
    return np.concatenate(diagonal), np.concatenate(beside), np.array([lengths])


def _standardised(
    published: Published, rounds: Rounds, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows of either round, before they are shortened."""
    columns, stated = published.release.columns, published.release.second_moments
    clip = stated.column_clip if stated is not None and stated.column_clip is not None else math.inf
    low, high = np.array([column.bounds or (-math.inf, math.inf) for column in columns]).T
    places = np.array([[(each.center, each.scale) for each in column.standards or ()] for column in columns])
    (first_center, first_scale), (center, scale) = places.transpose(1, 2, 0)

    clipped = _in_scores(published, values) if published.margins else np.clip(values, low, high)
    for values_of, column in zip(clipped.T, columns, strict=True):
        if isinstance(column.transform, Asinh):
            values_of[:] = np.arcsinh((values_of - column.transform.center) / column.transform.scale)
    clipped = np.clip(clipped, first_center - clip * first_scale, first_center + clip * first_scale)
    clipped = np.where(np.isnan(clipped), first_center, clipped)
    return (clipped - first_center) / first_scale, (clipped - center) / scale @ rounds.transform


def _shortened(rows: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.where(norms > 0, norms, 1.0))


def _noise(
    matrix: NDArray[np.float64], rows: NDArray[np.float64], stated: NoisyMatrix
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    whole = np.column_stack([rows, np.full(len(rows), stated.constant)])
    noise = matrix - whole.T @ whole
    on, beside = (math.sqrt(each or 0.0) for each in (stated.diagonal_variance, stated.off_diagonal_variance))
    return np.diagonal(noise)[:-1] / on, noise[np.triu_indices(len(noise), 1)] / beside


def _cells_of(margin: Margin, rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of every row, given the published columns of the margin's raw column, with NaN in gaps."""
    if rows.shape[1] > 1 and not margin.counts_numbers:
        cells = (rows * np.arange(rows.shape[1])).sum(axis=1)  # of its level, which alone is 1
    else:
        cells = (margin.edges[None, :] <= rows[:, :1]).sum(axis=1)
    if margin.has_gaps:
        cells = np.where(np.isnan(rows[:, 0]), len(margin.counts) - 1, cells)
    return np.asarray(cells, dtype=np.int64)


def _noise_of_margins(published: Published, values: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return what the noisy counts of every raw column are away from those of the rows that were published."""
    return [
        margin.counts - np.bincount(_cells_of(margin, rows), minlength=len(margin.counts))
        for margin, rows in _rows_of_margins(published, values)
    ]


def _in_scores(published: Published, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows with what was replaced by scores in these; gaps remain NaN."""
    stated = published.release.margins
    scored = values.copy()
    starts = _starts(published)
    for (margin, rows), start in zip(_rows_of_margins(published, values), starts, strict=True):
        if stated is not None and isinstance(published.release.columns[start].transform, Scores):
            shares = margin.shares(published.release.n_rows, stated.sigma)
            scores = middle_scores(shares[: margin.n_filled], published.release.n_rows)
            cells = np.minimum(_cells_of(margin, rows), len(scores) - 1)
            scored[:, start] = np.where(np.isnan(rows[:, 0]), np.nan, scores[cells])
    return scored


def _rows_of_margins(published: Published, values: NDArray[np.float64]) -> list[tuple[Margin, NDArray[np.float64]]]:
    starts = _starts(published)
    parts = zip(published.margins, starts, [*starts[1:], values.shape[1]], strict=True)
    return [(margin, values[:, start:end]) for margin, start, end in parts]


def _starts(published: Published) -> list[int]:
    """Return the place of the first published column of every raw one."""
    names: Sequence[str] = [column.source_name for column in published.release.columns]
    return [place for place, name in enumerate(names) if not place or name != names[place - 1]]
