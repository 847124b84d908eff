"""Whole covariance releases attacked: made-up raw tables are published, and what a reader finds is judged.

Two tables of a few dozen rows differ in the last one, or where rows may come and go, one has a row more. Cells are at
every level, at both ends of numbers and far outside them, and in gaps; the two rows are those of many whose products
are farthest apart. A coin decides for every release which of the tables is published. The attacker, who knows both,
guesses it by the likelihood ratio of the stated noise around the sums of either. The checks:

- attack: the lower bound on mu that the guesses prove does not exceed what is stated of a row. Whatever is mu-GDP lets
  nobody guess more often than Phi(mu / 2), whatever is epsilon-DP no more often than with the mu that epsilon implies.
- noise: what entries are away from the exact sums has the distribution stated, each of them and all together, and so
  has the noise on the lengths and the histograms of a release in two rounds.
- independence: signs of noise are uncorrelated between entries, both rounds, and releases, and no noise occurs twice.
- books: what the manifest states and what the ledger keeps is what the policy asks for.

The exact sums are computed here from what a release states: raw values are clipped, standardised, transformed and
shortened in plain floating-point arithmetic, as the format says it of bounds, standards, column clip, transform and
radius. That differs from the release's integers by far less than the noise. For histograms, rows are counted by
comparing each with every end of a cell. How far a row of that radius may move the sums is what readers check of every
manifest against its noise (`SecondMoments.check_guarantee`), as that entries are on its grid.

What was chosen privately in two rounds is taken as it was stated: the attack makes no use of it.

Noise that does not act entry by entry has no such law; it is attacked by `black_box`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special, stats

from dp_audit.black_box import attack_from_outside
from dp_audit.books import check_books_of_moments
from dp_audit.canaries import raw_table
from dp_audit.hypothesis_tests import cdf_excess
from dp_audit.press import UNPUBLISHED, Press, Published, made_up_policy, not_published, publish_made_up
from dp_audit.raw_cells import RawCell, any_states, raw_arrays, raw_cells
from dp_audit.report import AuditReport, Check, check_confidence, check_guesses, check_signs, make_check, runs_for
from dp_bundle.base.errors import PrivacyError
from dp_bundle.data.margins import Margin, middle_scores
from dp_bundle.manifest.matrix_noise import DiscreteLaplace, MatrixNoise, NoisyMatrix, RoundedGaussian
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.covariance.mechanisms.base import Mechanism, OneSum
from dp_publish.policy.model import Policy

_Floats: TypeAlias = NDArray[np.float64]

_LEAST_RELEASES, _RELEASES, _VALUES = 100, 2000, 1 << 24  # by default no more than so many entries of all matrices
_ROWS, _FEW_ROWS, _LARGE_MU = 400, 40, 20.0  # of a table, and where sums must be exact to a part of little noise
_DRAWN = 256  # pairs of rows, of which one makes the tables differ
_N_CHECKS = 3  # that may raise a false alarm
_STEPS = 2.0**28  # of a standard deviation, so fine that they are no grid
_LEAST = 2.0**-53


class _Law(NamedTuple):
    """Noise on every entry: its density falls with a power of the magnitude.

    `scales` returns those on and beside the diagonal of a stated noise; `cdf` is of noise of scale 1.
    """

    power: int
    scales: Callable[[Any], tuple[float, float]]
    cdf: Callable[[_Floats], _Floats]


_LAWS: dict[type[MatrixNoise], _Law] = {
    RoundedGaussian: _Law(2, lambda noise: (noise.diagonal_sigma, noise.off_diagonal_sigma), special.ndtr),
    DiscreteLaplace: _Law(1, lambda noise: (noise.scale, noise.scale), stats.laplace.cdf),
}


class _Found(NamedTuple):
    """What one release is away from the exact sums of a table, in stated scales."""

    entries: _Floats  # of all noisy sums, and of lengths
    counts: list[NDArray[np.int64]]  # of rows, by raw column: in ones


def audit_moments(
    policy: Policy,
    kinds: dict[str, str],
    count_rows: Callable[[], int],
    press: Press,
    *,
    n_canaries: int | None,
    confidence: float,
    tell: Callable[[str], None],
) -> AuditReport:
    """Attack whole releases by the mechanism that a policy sets, or the mechanism as a black box.

    Parameters
    ----------
    policy : Policy
        For a covariance release. Of an entity, one row is attacked.
    kinds : dict of str to str
        The columns.
    count_rows : callable
        Returns the number of rows that the release would have, where `auto` asks for it.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publishing.publish_aside`.
    n_canaries : int or None
        How many releases are attacked, from 100, or 1000 of a black box, to 2^20.
    confidence : float
        In [0.5, 1): the chance that a sound release passes every check, and that the lower bound holds.
    tell : callable
        Told the mechanism before the attack, which may take minutes.

    Raises
    ------
    ParameterError
        `n_canaries` or `confidence` is outside its range.
    PrivacyError
        It would take hours.
    """
    check_confidence(confidence)
    mechanism = set_mechanism(policy, kinds, count_rows)
    law = _LAWS.get(mechanism.noise)
    tell(mechanism.name)
    policy, chosen = made_up_policy(policy, kinds), policy.privacy.mechanism
    if policy.privacy.neighbours.n_rows_public:  # else `auto` must choose the same for made-up rows
        chosen = mechanism.name  # type: ignore[assignment]
    policy = policy.model_copy(update={"privacy": policy.privacy.model_copy(update={"mechanism": chosen})})
    tables, values = _neighbours(policy, kinds, mechanism)

    if law is None and isinstance(mechanism, OneSum):
        report, coins = attack_from_outside(mechanism, n_runs=n_canaries, confidence=confidence), np.zeros(1, np.bool_)
    else:
        usual = max(_LEAST_RELEASES, min(_RELEASES, _VALUES // mechanism.scaling.n_coordinates**2))
        n, stated = runs_for(n_canaries, usual, _LEAST_RELEASES), mechanism.spends(1).mu
        report = AuditReport("row", stated, 0.0, confidence, n, (), mechanism.name, max_rows=mechanism.max_rows)
        coins = np.random.default_rng().integers(0, 2, n).astype(np.bool_)
    try:
        released = [publish_made_up(press, tables[int(coin)], policy) for coin in coins]
    except UNPUBLISHED as error:
        return replace(report, checks=(*report.checks, make_check("books", [not_published(error)], "")))
    if law is not None:
        report = _judge(report, law, released, values, coins)
    return replace(report, checks=(*report.checks, check_books_of_moments(policy, mechanism, released[0])))


def _neighbours(policy: Policy, kinds: dict[str, str], mechanism: Mechanism) -> tuple[list[pa.Table], list[_Floats]]:
    """Return two raw tables, and the numbers that their rows stand for, with NaN in gaps that are left to a reader."""
    cells, rng = raw_cells(policy.sources, moment_columns(policy, kinds), outside=True), np.random.default_rng(1)
    states = any_states(cells, _ROWS if mechanism.spends(1).mu <= _LARGE_MU else _FEW_ROWS, rng)
    drawn = any_states(cells, 2 * _DRAWN, rng)

    # the two of some rows whose products with themselves are farthest apart
    rows = (_numbers(cells, drawn) - mechanism.scaling.centers) / mechanism.scaling.half_widths
    rows = np.column_stack([rows, np.full(len(rows), mechanism.scaling.constant)])
    one, other = rows[:_DRAWN], rows[_DRAWN:]
    squares = [np.einsum("ij,ij->i", *pair) for pair in ((one, one), (other, other), (one, other))]
    far = int(np.argmax(squares[0] ** 2 + squares[1] ** 2 - 2 * squares[2] ** 2))

    of_tables = [np.vstack([states, drawn[row]]) for row in (far, _DRAWN + far)]
    if not policy.privacy.neighbours.n_rows_public:
        of_tables[0] = states
    values = [_numbers(cells, own, as_gaps=mechanism.places_gaps) for own in of_tables]
    return [raw_table(policy, raw_arrays(cells, own)) for own in of_tables], values


def _numbers(cells: Sequence[RawCell], states: NDArray[np.int64], *, as_gaps: bool = False) -> _Floats:
    found = [cell.numbers[own] for cell, own in zip(cells, states.T, strict=True)]
    for cell, numbers in zip(cells, found, strict=True):
        if as_gaps and cell.columns[0].missing == "indicator":
            numbers[numbers[:, 1] == 1.0, 0] = math.nan
    return np.hstack(found)


def _judge(
    report: AuditReport, law: _Law, released: Sequence[Published], values: list[_Floats], coins: NDArray[np.bool_]
) -> AuditReport:
    """Return the report with the lower bound on mu and the checks of noise."""
    alpha, rng = (1 - report.confidence) / _N_CHECKS, np.random.default_rng()
    found = [[_found(each, law, own) for own in values] for each in released]
    margins = released[0].release.margins
    sigma = 1.0 if margins is None else margins.sigma
    sizes = np.array([[_size(each, law, sigma) for each in both] for both in found])
    correct = int(np.count_nonzero((sizes[:, 1] < sizes[:, 0]) == coins))
    mu_lower, attack = check_guesses(correct, len(coins), report.stated_mu or 0.0, alpha)

    own = [both[int(coin)] for both, coin in zip(found, coins, strict=True)]
    entries = np.array([each.entries for each in own])
    counts = np.concatenate([np.empty(0, np.int64), *(part for each in own for part in each.counts)])
    first = [[part[0] for part in each.counts] for each in own]  # of each column's first cell
    signs = np.sign(np.column_stack([entries, np.array(first).reshape(len(own), -1)])).astype(np.int8)
    checks = (
        attack,
        _check_noise(law, entries, _before_rounding(counts, sigma, rng), alpha),
        check_signs([signs], alpha),
    )
    return replace(report, mu_lower=mu_lower, checks=checks)


def _check_noise(law: _Law, entries: _Floats, counts: _Floats, alpha: float) -> Check:
    """Check the size of the noise on entries and on counts, and its distribution, of every entry by itself."""
    groups: list[tuple[str, _Law, _Floats, Sequence[_Floats]]] = [
        ("entries", law, entries, [*entries.T]),
        ("counts", _LAWS[RoundedGaussian], counts, [counts]),
    ]
    share, faults, worst = alpha / (2 + entries.shape[1] + 1), [], 0.0
    for where, own, noise, parts in groups:
        if not noise.size:
            continue
        factor = 2 // own.power  # of magnitudes, or squares, whose sum is chi-squared
        total, freedom = factor * float(np.sum(np.abs(noise) ** own.power)), factor * noise.size
        worst = max(worst, abs(total / freedom - 1))

        def cdf(steps: _Floats, own: _Law = own) -> _Floats:
            return own.cdf((steps + 0.5) / _STEPS)

        if 2 * min(stats.chi2.cdf(total, freedom), stats.chi2.sf(total, freedom)) < share:
            faults.append(f"the noise on {where} has {total / freedom:.4g} times its stated size")
        elif max(cdf_excess(np.rint(part * _STEPS), cdf, share) for part in parts) > 1:
            faults.append(f"the noise on {where} does not have the distribution stated")
    return make_check("noise", faults, f"distributed as stated around exact sums, sizes within {worst:.2%}")


def _size(found: _Found, law: _Law, sigma: float) -> float:
    """Return the negative logarithm of the density of noise, up to a number that is the same for every table."""
    size = float(np.sum(np.abs(found.entries) ** law.power)) / law.power
    return size + sum(0.5 * float(np.sum((part / sigma) ** 2)) for part in found.counts)


def _before_rounding(noise: NDArray[np.int64], sigma: float, rng: np.random.Generator) -> _Floats:
    """Return normal numbers that were rounded to this noise, each drawn from all that are."""
    low, high = special.ndtr((noise - 0.5) / sigma), special.ndtr((noise + 0.5) / sigma)
    found: _Floats = special.ndtri(np.clip(low + rng.random(noise.shape) * (high - low), _LEAST, 1 - _LEAST))
    return found


def _noisy_entries(matrix: _Floats, published: Published) -> _Floats:
    """Return the upper triangle of a matrix without the last entry, the constant's own, where that is exact."""
    public = published.release.guarantee is None or published.release.guarantee.neighbours.n_rows_public
    return matrix[np.triu_indices(len(matrix))][: -1 if public else None]


def _found(published: Published, law: _Law, values: _Floats) -> _Found:
    """Return what a release is away from the exact sums of a table's rows."""
    columns, stated = published.release.columns, _stated(published)
    low, high = np.array([column.bounds or (-math.inf, math.inf) for column in columns]).T
    if stated.first_round is None or published.first_round is None or published.transform is None:
        rows = (np.clip(values, low, high) - (0.5 * low + 0.5 * high)) / (0.5 * high - 0.5 * low)
        return _Found(_away(published, published.values, stated, law, _shortened(rows, stated.radius)), [])

    # of two rounds, rows in scores, clipped, and as each round standardises them
    clipped = _in_scores(published, np.clip(values, low, high))
    standards = np.array([[(each.center, each.scale) for each in column.standards or ()] for column in columns])
    (center, scale), (second_center, second_scale) = standards.transpose(1, 2, 0)
    reach = (stated.column_clip or math.inf) * scale
    clipped = np.where(np.isnan(clipped), center, np.clip(clipped, center - reach, center + reach))
    first = _shortened((clipped - center) / scale, stated.first_round.radius)
    second = _shortened((clipped - second_center) / second_scale @ published.transform, stated.radius)

    parts = [
        _away(published, published.first_round, stated.first_round, law, first),
        _away(published, published.values, stated, law, second),
    ]
    if stated.fourth_moment is not None:
        lengths = float(np.sum((np.linalg.norm(second, axis=1) / stated.radius) ** 4))
        parts.append(np.array([(stated.fourth_moment.total - lengths) / stated.fourth_moment.sigma]))
    counts = [
        margin.counts - np.bincount(_cells_of(margin, rows), minlength=len(margin.counts))
        for _, margin, rows in _rows_of_margins(published, values)
    ]
    return _Found(np.concatenate(parts), counts)


def _stated(published: Published) -> Any:
    if published.release.second_moments is None:
        raise PrivacyError("the audit failed: a covariance release does not describe its matrix")
    return published.release.second_moments


def _shortened(rows: _Floats, radius: float) -> _Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.where(norms > 0, norms, 1.0))


def _away(published: Published, matrix: _Floats, stated: NoisyMatrix, law: _Law, rows: _Floats) -> _Floats:
    """Return what a matrix's noisy entries are away from the exact sums of rows, in stated scales."""
    whole = np.column_stack([rows, np.full(len(rows), stated.constant)])
    scales = np.where(np.eye(len(matrix), dtype=bool), *law.scales(stated.noise))
    return _noisy_entries((matrix - whole.T @ whole) / scales, published)


def _cells_of(margin: Margin, rows: _Floats) -> NDArray[np.int64]:
    """Return the cell of every row, given the published columns of the margin's raw column, with NaN in gaps."""
    if rows.shape[1] > 1 and not margin.counts_numbers:
        cells = (rows * np.arange(rows.shape[1])).sum(axis=1)  # of its level, which alone is 1
    else:
        cells = (margin.edges[None, :] <= rows[:, :1]).sum(axis=1)
    if margin.has_gaps:
        cells = np.where(np.isnan(rows[:, 0]), len(margin.counts) - 1, cells)
    return np.asarray(cells, dtype=np.int64)


def _in_scores(published: Published, values: _Floats) -> _Floats:
    """Return the rows with what was replaced by scores in these; gaps remain NaN."""
    release, scored = published.release, values.copy()
    for start, margin, rows in _rows_of_margins(published, values):
        if release.margins is not None and release.columns[start].transform is not None:
            shares = margin.shares(release.n_rows, release.margins.sigma)
            scores = middle_scores(shares[: margin.n_filled], release.n_rows)
            cells = np.minimum(_cells_of(margin, rows), len(scores) - 1)
            scored[:, start] = np.where(np.isnan(rows[:, 0]), np.nan, scores[cells])
    return scored


def _rows_of_margins(published: Published, values: _Floats) -> Iterator[tuple[int, Margin, _Floats]]:
    """Yield the place of the first published column of every raw one, its histogram, and its columns."""
    names = [column.source_name for column in published.release.columns]
    starts = [place for place, name in enumerate(names) if not place or name != names[place - 1]]
    for margin, start, end in zip(published.margins, starts, [*starts[1:], len(names)], strict=False):
        yield start, margin, values[:, start:end]
