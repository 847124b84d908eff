"""Releases of second moments attacked: made-up tables are published, and what a reader finds is judged by the manifest.

Two tables of some hundred rows differ in the last one, or in as many as an entity may have. Where rows may come and go,
one table lacks them. The two rows are those of many whose products are farthest apart. Of noise that does not act entry
by entry, the first of them is all that the tables have in common. A coin decides for every release which of the tables
is published, and the attacker, who knows both, guesses it. He does so by the likelihood ratio of the stated noise
around the exact sums of either. Of noise that does not act entry by entry, he takes the nearer one in the nuclear norm.
The checks:

- attack: coins are not guessed more often than the stated mu allows.
- noise: what entries are away from the exact sums has the distribution stated, each of them and all together. So has
  the noise on the lengths and the histograms of a release in two rounds.
- independence: signs of noise are uncorrelated between entries, both rounds, and releases, and no noise occurs twice.

The exact sums are computed here from what a release states. Raw values are clipped, standardised, transformed and
shortened in plain floating-point arithmetic, as the format says it of bounds, standards, column clip, transform and
radius. That differs from the release's integers by far less than the noise. For histograms, rows are counted by
comparing each with every end of a cell. How far a row of that radius may move the sums is what readers check of every
manifest against its noise (`SecondMoments.check_guarantee`). They check that entries are on its grid, too.

What was chosen or found privately is taken as it was stated: the attack makes no use of it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import special, stats

from dp_audit.judging import Attacked, Check, Guesses, Law, judge_guesses, judge_noise, judge_signs, make_check
from dp_audit.made_up import Press, Published, RawCell, States, any_states, publish_made_up, raw_table
from dp_bundle.base.arrays import Floats
from dp_bundle.data.margins import Margin, middle_scores
from dp_bundle.manifest.matrix_noise import DiscreteLaplace, MatrixNoise, NoisyMatrix, RoundedGaussian
from dp_publish.policy.model import Policy

_LEAST_RELEASES, _RELEASES, _VALUES = 100, 2000, 1 << 24  # by default no more than so many entries of all matrices
_ROWS, _FEW_ROWS, _LARGE_MU = 400, 40, 20.0  # of a table, and where sums must be exact to a part of little noise
_UNDECLARED = 5, 5  # times as many rows, and a share of the releases, where all is found in them
_MOST_ALIKE = 100  # rows of an entity that an attack makes use of
_DRAWN = 256  # pairs of rows, of which one makes the tables differ
_N_CHECKS = 3  # that may raise a false alarm
_STEPS = 2.0**28  # of a standard deviation, so fine that they are no grid
_LEAST = 2.0**-53


class _EntryNoise(NamedTuple):
    """Noise on every entry: its density falls with a power of the magnitude.

    `scales` returns those on and beside the diagonal of a stated noise; `law` is that of scale 1, in `_STEPS`.
    """

    power: int
    scales: Callable[[Any], tuple[float, float]]
    law: Law


_NORMAL = Law(_STEPS**2, 3 * _STEPS**4, lambda steps: np.asarray(special.ndtr((steps + 0.5) / _STEPS)))
_LAPLACE = Law(2 * _STEPS**2, 24 * _STEPS**4, lambda steps: np.asarray(stats.laplace.cdf((steps + 0.5) / _STEPS)))
_NOISES: dict[type[MatrixNoise], _EntryNoise] = {
    RoundedGaussian: _EntryNoise(2, lambda noise: (noise.diagonal_sigma, noise.off_diagonal_sigma), _NORMAL),
    DiscreteLaplace: _EntryNoise(1, lambda noise: (noise.scale, noise.scale), _LAPLACE),
}


class _Found(NamedTuple):
    """What one release is away from the exact sums of a table, in stated scales.

    Attributes
    ----------
    entries : ndarray
        Of all noisy sums, and of lengths; empty of noise that does not act entry by entry.
    counts : list of ndarray of int
        Of rows, by raw column: in ones.
    size : float
        The negative logarithm of the density of such noise, up to a number that is the same for every table. Or the
        distance in the nuclear norm.
    """

    entries: Floats
    counts: list[States]
    size: float


def attack_moments(
    policy: Policy, cells: list[RawCell], press: Press, n_canaries: int | None, confidence: float, *, declared: bool
) -> Attacked:
    """Publish made-up tables under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a covariance release.
    cells : list of RawCell
        Those of a raw row.
    press : callable
        Publishes a made-up table.
    n_canaries : int or None
        How many releases are attacked, up to 2,000 by default.
    confidence : float
        The chance that a sound release passes every check, and that the lower bound holds.
    declared : bool
        Whether the policy says what columns are, which is found in each release if not.
    """
    alpha, rng = (1 - confidence) / _N_CHECKS, np.random.default_rng()
    more, part = (1, 1) if declared else _UNDECLARED
    states = any_states(cells, more * _ROWS, rng)
    probe = publish_made_up(press, raw_table(policy, cells, states), policy)
    pair, noise = _farthest_apart(probe, cells, rng), _NOISES.get(type(_stated(probe).noise))
    common = pair[:1] if noise is None else states if probe.mu <= _LARGE_MU else states[:_FEW_ROWS]
    tables, of_tables = _neighbours(policy, cells, common, pair)

    usual = max(_LEAST_RELEASES, min(_RELEASES, _VALUES // len(probe.values) ** 2) // part)
    coins = rng.integers(0, 2, n_canaries or usual).astype(np.bool_)
    released = [publish_made_up(press, tables[int(coin)], policy) for coin in coins]
    found = [[_found(each, each.numbers(cells, own)) for own in of_tables] for each in released]
    correct = int(
        np.count_nonzero([(two.size < one.size) == coin for (one, two), coin in zip(found, coins, strict=True)])
    )
    mu_lower, attack = judge_guesses([Guesses("at a release", correct, len(coins), probe.mu)], alpha)
    own = [both[int(coin)] for both, coin in zip(found, coins, strict=True)]
    checks = [] if noise is None else _check_noise(noise, _counts_sigma(probe), own, alpha, rng)
    return Attacked(len(coins), probe.mu, mu_lower, [attack, *checks], released[0])


def _counts_sigma(published: Published) -> float:
    """Return the standard deviation of the noise on histograms, if there are any."""
    margins = published.release.margins
    return 1.0 if margins is None else margins.sigma


def _farthest_apart(probe: Published, cells: Sequence[RawCell], rng: np.random.Generator) -> States:
    """Return the states of two of some rows whose products with themselves are farthest apart."""
    drawn = any_states(cells, 2 * _DRAWN, rng)
    rows, stated = _first_rows(probe, probe.numbers(cells, drawn)), _stated(probe)
    rows = np.column_stack([rows, np.full(len(rows), (stated.first_round or stated).constant)])
    one, other = rows[:_DRAWN], rows[_DRAWN:]
    squares = [np.einsum("ij,ij->i", *pair) for pair in ((one, one), (other, other), (one, other))]
    far = int(np.argmax(squares[0] ** 2 + squares[1] ** 2 - 2 * squares[2] ** 2))
    return drawn[[far, _DRAWN + far]]


def _neighbours(
    policy: Policy, cells: Sequence[RawCell], states: States, pair: States
) -> tuple[list[pa.Table], list[States]]:
    """Return two raw tables, and the states of their rows, which differ in the rows of one unit of privacy."""
    alike = min(policy.privacy.max_rows, _MOST_ALIKE)
    of_tables = [np.vstack([states, *[row] * alike]) for row in pair]
    if not policy.privacy.neighbours.n_rows_public:
        of_tables[0] = states
    owners = np.minimum(np.arange(len(states) + alike), len(states))
    return [raw_table(policy, cells, own, owners[: len(own)]) for own in of_tables], of_tables


def _check_noise(
    own: _EntryNoise, sigma: float, found: Sequence[_Found], alpha: float, rng: np.random.Generator
) -> list[Check]:
    """Check the noise on entries and on counts, of every entry by itself and of all together, and its signs.

    Where it is found in each release what columns are, only those with the usual number of them are compared.
    """
    sizes = [(len(each.entries), len(each.counts)) for each in found]
    found = [each for each, size in zip(found, sizes, strict=True) if size == max(sizes, key=sizes.count)]
    entries, counts = np.array([each.entries for each in found]), [part for each in found for part in each.counts]
    faults, (worst, fault) = [], judge_noise([*np.rint(entries.T * _STEPS)], own.law, alpha / 2)
    faults += [f"the noise on entries {fault}"] if fault else []
    if counts:
        rounded = np.concatenate(counts)  # of normal numbers, each drawn from all that are rounded to it
        low, high = special.ndtr((rounded - 0.5) / sigma), special.ndtr((rounded + 0.5) / sigma)
        noise = special.ndtri(np.clip(low + rng.random(rounded.shape) * (high - low), _LEAST, 1 - _LEAST))
        off, fault = judge_noise([np.rint(noise * _STEPS)], _NORMAL, alpha / 2)
        worst, faults = max(worst, off), [*faults, *([f"the noise on counts {fault}"] if fault else [])]
    first = [[part[0] for part in each.counts] for each in found]  # of each column's first cell
    signs = np.sign(np.column_stack([entries, np.array(first).reshape(len(found), -1)]))
    said = f"distributed as stated around exact sums, variances within {worst:.2%}"
    return [make_check("noise", faults, said), judge_signs([signs], alpha)]


def _found(published: Published, values: Floats) -> _Found:
    """Return what a release is away from the exact sums of a table's rows."""
    stated, rows = _stated(published), _first_rows(published, values)
    noise = _NOISES.get(type(stated.noise))
    if noise is None:
        away = published.values - stated.noise.bias * np.eye(len(published.values)) - _sums(rows, stated)
        return _Found(np.empty(0), [], float(np.linalg.norm(away, "nuc")))
    if stated.first_round is None or published.first_round is None or published.transform is None:
        entries, counts = _away(published, published.values, stated, rows), list[States]()
    else:
        second = _shortened(_standardised(published, values, 1) @ published.transform, stated.radius)
        parts = [
            _away(published, published.first_round, stated.first_round, rows),
            _away(published, published.values, stated, second),
        ]
        if stated.fourth_moment is not None:
            lengths = float(np.sum((np.linalg.norm(second, axis=1) / stated.radius) ** 4))
            parts.append(np.array([(stated.fourth_moment.total - lengths) / stated.fourth_moment.sigma]))
        entries = np.concatenate(parts)
        counts = [
            margin.counts - np.bincount(_cells_of(margin, rows), minlength=len(margin.counts))
            for _, margin, rows in _rows_of_margins(published, values)
        ]
    size = float(np.sum(np.abs(entries) ** noise.power)) / noise.power
    of_counts = (0.5 * float(np.sum((part / _counts_sigma(published)) ** 2)) for part in counts)
    return _Found(entries, counts, size + sum(of_counts))


def _first_rows(published: Published, values: Floats) -> Floats:
    """Return rows as the only round, or the first one, takes them: standardised and shortened."""
    stated = _stated(published)
    if stated.first_round is not None:
        return _shortened(_standardised(published, values, 0), stated.first_round.radius)
    low, high = np.array([column.limits for column in published.release.columns]).T
    return _shortened((np.clip(values, low, high) - (0.5 * low + 0.5 * high)) / (0.5 * high - 0.5 * low), stated.radius)


def _standardised(published: Published, values: Floats, number: int) -> Floats:
    """Return rows in scores, clipped, and as one of the two rounds standardises them."""
    columns = published.release.columns
    low, high = np.array([column.limits for column in columns]).T
    clipped = _in_scores(published, np.clip(values, low, high))
    standards = np.array([[(each.center, each.scale) for each in column.standards or ()] for column in columns])
    center, scale = standards[:, 0].T
    reach = (_stated(published).column_clip or math.inf) * scale
    clipped = np.where(np.isnan(clipped), center, np.clip(clipped, center - reach, center + reach))
    return np.asarray((clipped - standards[:, number, 0]) / standards[:, number, 1])


def _stated(published: Published) -> Any:
    """Return the description of the matrix, which a covariance release has."""
    return published.release.second_moments


def _shortened(rows: Floats, radius: float) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, radius / np.where(norms > 0, norms, 1.0))


def _sums(rows: Floats, stated: NoisyMatrix) -> Floats:
    """Return the exact sums of rows, with the constant."""
    whole = np.column_stack([rows, np.full(len(rows), stated.constant)])[:, : None if stated.constant else -1]
    return np.asarray(whole.T @ whole)


def _away(published: Published, matrix: Floats, stated: NoisyMatrix, rows: Floats) -> Floats:
    """Return what a matrix's noisy entries are away from the exact sums of rows, in stated scales.

    Those are the upper triangle, without the last entry, the constant's own, where that is exact.
    """
    scales = np.where(np.eye(len(matrix), dtype=bool), *_NOISES[type(stated.noise)].scales(stated.noise))
    public = published.release.guarantee.neighbours.n_rows_public
    return np.asarray(((matrix - _sums(rows, stated)) / scales)[np.triu_indices(len(matrix))][: -1 if public else None])


def _cells_of(margin: Margin, rows: Floats) -> States:
    """Return the cell of every row, given the published columns of the margin's raw column, with NaN in gaps."""
    if rows.shape[1] > 1 and not margin.counts_numbers:
        cells = (rows * np.arange(rows.shape[1])).sum(axis=1)  # of its level, which alone is 1
    else:
        cells = (margin.edges[None, :] <= rows[:, :1]).sum(axis=1)
    if margin.has_gaps:
        cells = np.where(np.isnan(rows[:, 0]), len(margin.counts) - 1, cells)
    return np.asarray(cells, dtype=np.int64)


def _in_scores(published: Published, values: Floats) -> Floats:
    """Return the rows with what was replaced by scores in these; gaps remain NaN."""
    release, scored = published.release, values.copy()
    for start, margin, rows in _rows_of_margins(published, values):
        if release.margins is not None and release.columns[start].transform is not None:
            shares = margin.shares(release.n_rows, release.margins.sigma)
            scores = middle_scores(shares[: margin.n_filled], release.n_rows)
            cells = np.minimum(_cells_of(margin, rows), len(scores) - 1)
            scored[:, start] = np.where(np.isnan(rows[:, 0]), np.nan, scores[cells])
    return scored


def _rows_of_margins(published: Published, values: Floats) -> Iterator[tuple[int, Margin, Floats]]:
    """Yield the place of the first published column of every raw one, its histogram, and its columns."""
    names = [column.source_name for column in published.release.columns]
    starts = [place for place, name in enumerate(names) if not place or name != names[place - 1]]
    for margin, start, end in zip(published.margins, starts, [*starts[1:], len(names)], strict=False):
        yield start, margin, values[:, start:end]
