"""Contradictions between the published numbers and the manifest's account of their noise.

A signature proves who made a statement, not that it is true. Three statements can be checked from the rows alone:

* every value lies on the stated grid;
* the noise is there: Gaussian noise of variance v leaves no column, whatever its data, a sample variance far below v.
  Nor does it leave a combination of columns one far below the smallest that noise alone would have;
* no column varies more than its bounds and the noise together allow.

Between these limits, more noise than stated looks just like rows with more variance. The entries of released second
moments lie on the grid too. They differ from what rows within the ball can add up to by no more than the stated noise.

References
----------
Marchenko & Pastur (1967) for the edge (1 - sqrt(p/n))^2. Davidson & Szarek (2001), theorem 2.13, for how far below it
the smallest eigenvalue of Gaussian noise falls. Perlman & Olkin (1980) for why data beneath the noise only raise it.
"""

import math
from collections.abc import Sequence

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import name_columns, quote_path
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.matrix_noise import (
    DiscreteLaplace,
    MatrixNoise,
    NoisyMatrix,
    RoundedGaussian,
    SecondMoments,
    WishartDifferenceNoise,
    WishartNoise,
)
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.covariance.moments import Moments
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import RowSource, bundle_source, counts_rows, shown_names
from dp_learn.covariance.two_rounds import RoundMatrices
from dp_learn.matrices.linalg import FloatArray, chi_squared_quantiles, is_positive_definite, smallest_eigenvalue

FALSE_ALARM = 1e-6  # the chance that true statements are doubted
_FINE_SIGMA = 1.0  # noise of fewer grid steps than this is not Gaussian enough for these tails


def find_bundle_contradictions(bundles: Sequence[Bundle], sample: Sample) -> list[str]:
    """Return a sentence for everything in which a bundle contradicts its manifest."""
    found = []
    for bundle, source, rows in zip(bundles, sample.sources, sample.moments, strict=True):
        release, moments, sentences = bundle.release, bundle.release.second_moments, list[str]()
        names, shown = [column.name for column in release.columns], shown_names(bundle)
        described = {name: each for each in release.columns for name in (each.name, shown.get(each.name, each.name))}
        if isinstance(source, RowSource):
            if source.rest is not None:  # gaps are left out
                source = bundle_source(bundle)
                (rows,) = source.moments()
            sentences = find_contradictions([described[name] for name in source.columns], rows)
        elif moments is not None and moments.first_round is not None:
            sentences = find_round_contradictions(moments, names, RoundMatrices.from_bundle(bundle), release.n_rows)
        elif moments is not None:
            matrix, counted = bundle.second_moments(), counts_rows(bundle)
            sentences = find_moment_contradictions(moments, names, matrix, release.n_rows, exact_count=counted)
        found += [f"{quote_path(bundle.path)} contradicts its manifest: {sentence}" for sentence in sentences]
    return found


def find_contradictions(columns: Sequence[Column], moments: Moments) -> list[str]:
    """Return a sentence for everything in which the rows contradict the manifest; none if they agree.

    Parameters
    ----------
    columns : sequence of Column
        What the manifest says of each column.
    moments : Moments
        The moments of the published rows.
    """
    found = []
    off_grid = [(column, int(count)) for column, count in zip(columns, moments.n_off_grid, strict=True) if count]
    if off_grid:
        worst, count = max(off_grid, key=lambda pair: pair[1])
        found.append(
            f"values are not on the stated grid in {name_columns([column.name for column, _ in off_grid])}: "
            f"{count} of {moments.n_rows} in {name_columns([worst.name])} are not multiples of "
            f"{worst.grid:g}"
        )
    if moments.n_rows < 2:
        return found
    found += _beyond_bounds(columns, moments)
    fine = [index for index, column in enumerate(columns) if _is_fine(column)]
    covariance = moments.covariance[np.ix_(fine, fine)]
    return found + _contradicting_noise([columns[index] for index in fine], covariance, moments.n_rows)


def find_round_contradictions(
    moments: SecondMoments, names: Sequence[str], matrices: RoundMatrices, n_rows: int
) -> list[str]:
    """Return the contradictions in a covariance that was released in two rounds.

    Each round is as `find_moment_contradictions` has it. Let x = |y|^2 / R^2 in [0, 1] for the rows y of round 2. Then
    the sum of x^2 is at most that of x, and at least its square over n.

    Parameters
    ----------
    moments : SecondMoments
        What the manifest says.
    names : sequence of str
        The columns, in the order of the matrices.
    matrices : RoundMatrices
        What was released.
    n_rows : int
        The number of rows.
    """
    first, fourth = moments.first_round, moments.fourth_moment
    if first is None or fourth is None or moments.column_clip is None:
        return []
    rounds = ((first, matrices.first, moments.column_clip), (moments, matrices.final, math.inf))
    found = [
        f"in round {number}, {sentence}"
        for number, (noise, matrix, box) in enumerate(rounds, 1)
        for sentence in find_moment_contradictions(noise, names, matrix, n_rows, exact_count=True, box=box)
    ]

    # the sum of x, and how far the noise may have moved it and that of x^2
    p, far = len(names), -normal_quantile(FALSE_ALARM / 4.0)
    squares = float(np.trace(matrices.final[:p, :p])) / moments.radius**2
    room = far * math.sqrt(p * (moments.diagonal_variance or 0.0)) / moments.radius**2
    tail = far * math.sqrt(fourth.variance)
    most, least = min(squares + room, n_rows), max(squares - room, 0.0)
    if not least * least / n_rows - tail <= fourth.total <= most + tail:
        found.append("the fourth moment is none that rows with the second moments of round 2 can have")
    return found


def find_moment_contradictions(
    noise: NoisyMatrix, names: Sequence[str], matrix: FloatArray, n_rows: int, *, exact_count: bool, box: float = 1.0
) -> list[str]:
    """Return the contradictions in a covariance release; none where its noise does not act entry by entry.

    Let rows z be in the ball of radius r and the box of half-width h. Then a sum of squares is between 0 and n min(h^2,
    r^2). A sum of products of two columns is at most n min(h^2, r^2 / 2) in size. Of one with the constant c it is at
    most n c min(h, r).

    Parameters
    ----------
    noise : NoisyMatrix
        What the manifest says of the matrix.
    names : sequence of str
        The columns, in the order of the matrix.
    matrix : ndarray of shape (d, d)
        The noisy sum as released, with the constant last where there is one.
    n_rows : int
        The number of rows, as stated.
    exact_count : bool
        Whether that is public and exact; sums have no upper limit otherwise.
    box : float
        h, in units of z.
    """
    if noise.distribution is None:
        return []

    # entries on the grid
    p, d, steps, found = len(names), len(matrix), matrix / noise.granularity, []
    off_grid = np.triu(steps != np.rint(steps))
    if d > p and exact_count:
        off_grid[p, p] = False
    if off_grid.any():
        count = int(np.count_nonzero(off_grid))
        found.append(f"{count} of {d * (d + 1) // 2} entries are not multiples of {noise.granularity:g}")

    # sums within what the rows can add up to, and the noise
    on, beside = _moment_tails(noise.noise, FALSE_ALARM / d**2)
    squares = matrix.diagonal()[:p] - noise.bias
    products = np.abs(matrix[:p, :p] - np.diag(matrix.diagonal()[:p])).max(axis=1)
    radius = noise.radius
    highest = n_rows * min(box, radius) ** 2 + on if exact_count else math.inf
    largest = n_rows * min(box**2, radius**2 / 2.0) + beside if exact_count else math.inf
    with_constant = n_rows * noise.constant * min(box, radius) + beside if exact_count else math.inf

    wrong = (squares < -on) | (squares > highest) | (products > largest)
    if d > p:
        wrong |= np.abs(matrix[:p, p]) > with_constant

    if wrong.any():
        outside = name_columns([names[index] for index in np.flatnonzero(wrong).tolist()])
        found.append(f"sums over the rows with {outside} are beyond what the stated bounds and noise together allow")
    return found


def _moment_tails(noise: MatrixNoise, chance: float) -> tuple[float, float]:
    """Return the size that the noise of a diagonal and of an off-diagonal entry exceeds with so small a chance.

    An off-diagonal entry of a Wishart matrix is half the difference of two chi-squared variables. That of one Wishart
    matrix less another is half that of two such variables with twice the degrees of freedom.
    """
    if isinstance(noise, WishartNoise):
        degrees = noise.degrees_of_freedom
        low, high = chi_squared_quantiles(degrees, chance / 4.0)
        on, off = noise.scale * max(high - degrees, degrees - low), noise.scale * ((high - low) / 2.0)
    elif isinstance(noise, WishartDifferenceNoise):
        low, high = chi_squared_quantiles(noise.degrees_of_freedom, chance / 4.0)
        least, most = chi_squared_quantiles(2.0 * noise.degrees_of_freedom, chance / 4.0)
        on, off = noise.scale * (high - low), noise.scale * ((most - least) / 2.0)
    elif isinstance(noise, DiscreteLaplace):
        on = off = noise.scale * -math.log(chance)
    elif isinstance(noise, RoundedGaussian):
        far = -normal_quantile(chance / 2.0)
        on, off = far * noise.diagonal_sigma, far * noise.off_diagonal_sigma
    else:
        on = off = math.inf
    return on + noise.granularity, off + noise.granularity


def smallest_possible_eigenvalue(n_features: int, n_rows: int) -> float:
    """Return a lower bound on the smallest eigenvalue of a covariance of unit noise, wrong in one case in a million.

    It is ``(1 - sqrt(p/m) - sqrt(2 log(10^6) / m))^2`` with m = n_rows - 1, and 0 where that is not positive. That is
    the edge of Marchenko and Pastur, less the most that a sample falls below it.

    Parameters
    ----------
    n_features, n_rows : int
        Columns p, and rows, at least 2.
    """
    m = n_rows - 1
    return max(0.0, 1.0 - math.sqrt(n_features / m) - math.sqrt(-2.0 * math.log(FALSE_ALARM) / m)) ** 2


def _contradicting_noise(columns: Sequence[Column], covariance: FloatArray, n_rows: int) -> list[str]:
    """Compare the published variances with the stated noise's: column by column, then in every direction."""
    if not columns:
        return []
    names, variance = [column.name for column in columns], np.array([column.cell_noise.variance for column in columns])

    # column by column
    ratio = np.diagonal(covariance) / variance
    least = 1.0  # or less: where no variance is below the noise's own, it does not matter by how much one could be
    if (ratio < least).any():
        least = chi_squared_quantiles(n_rows - 1, FALSE_ALARM / len(names))[0] / (n_rows - 1)
    below = np.flatnonzero(ratio < least)
    if below.size:
        worst = int(below[np.argmin(ratio[below])])
        return [
            f"{name_columns([names[index] for index in below.tolist()])} vary less than the stated noise alone would: "
            f"the variance of {name_columns([names[worst]])} is {ratio[worst]:.3g} times that of the noise, and "
            f"at least {least:.3g} times was expected"
        ]

    # in every direction
    edge, root = smallest_possible_eigenvalue(len(names), n_rows), np.sqrt(variance)
    scaled = covariance / np.outer(root, root)
    if edge == 0.0 or is_positive_definite(scaled - edge * np.eye(len(root))):
        return []
    smallest = smallest_eigenvalue(scaled)
    sentence = (
        "some combination of columns varies less than the stated noise alone would: the smallest eigenvalue in "
        f"units of the noise is {smallest:.3g}, and at least {edge:.3g} was expected"
    )
    return [sentence] if smallest < edge else []


def _is_fine(column: Column) -> bool:
    """Return True if noise was added that is Gaussian enough for these tails."""
    return column.response is None and column.cell_noise.sigma >= _FINE_SIGMA * column.cell_noise.granularity


def _beyond_bounds(columns: Sequence[Column], moments: Moments) -> list[str]:
    """Compare each variance with the largest that values within the bounds, at both ends, and the noise can have."""
    m = moments.n_rows - 1
    bounded = [index for index, column in enumerate(columns) if column.bounds is not None and _is_fine(column)]
    variances = np.diagonal(moments.covariance)[bounded]
    widths = math.sqrt(moments.n_rows / m) * np.array([columns[index].width for index in bounded]) / 2.0
    sigmas = np.sqrt([columns[index].cell_noise.variance for index in bounded])
    beyond = np.flatnonzero(variances > (widths + sigmas) ** 2)
    if beyond.size:  # by noise of exactly its stated variance; by chance there may be more
        room = math.sqrt(chi_squared_quantiles(m, FALSE_ALARM / len(columns))[1] / m)
        beyond = np.flatnonzero(variances > (widths + sigmas * room) ** 2)
    named = name_columns([columns[bounded[index]].name for index in beyond.tolist()]) if beyond.size else ""
    return [f"{named} vary more than the stated bounds and noise together allow"] if named else []
