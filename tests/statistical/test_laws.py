"""One table of samplers and mechanisms, each with its exact law, and one test that draws and compares.

Every entry draws numbers of which the law has a closed form, or is computed here, in units of its scale. By their own
law they become uniform (numbers on a grid by chance within their step), which a chi-squared test accepts; by the law at
a wrong scale they do not, which it rejects.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, special, stats
from tests.statistical.transcripts import Turn, noisy_of, record, two_rounds, worst_neighbours

from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP, Strength
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.covariance.mechanisms.base import OneSum, mechanism_named
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.spectral import PLACES, draw_direction
from dp_publish.covariance.mechanisms.two_round import NoisySums
from dp_publish.covariance.mechanisms.wishart import degrees_tight
from dp_publish.covariance.scaling import Scaling, scaling_for
from dp_publish.covariance.two_rounds.steps import Choice, NoisyCounts, NoisyLengths
from dp_publish.rows.noise import sample_replacements
from dp_publish.sampling.bingham import sample_bingham
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.fixed_point import integers, precise_normals
from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian, standard_normals
from dp_publish.sampling.keystream import Keystream, insecure_keystream, uniform_integers
from dp_publish.sampling.laplace import sample_discrete_laplace
from dp_publish.sampling.places import EqualCells, ScaleSearch, add_to_cells, center_scores

Floats = NDArray[np.float64]
Cdf = Callable[[Floats], Floats]
BINS = 40
LIMIT = 4.9  # standard errors: a false alarm once in a million


@dataclass(frozen=True)
class Drawn:
    """A sampler or a mechanism, and its law.

    Attributes
    ----------
    draw : callable
        Returns so many rows of draws, those of a row being independent.
    law : callable
        Returns the distribution function at so many times the scale.
    n : int
        How many rows are drawn in CI; ten times as many in the long tests.
    wrong : tuple of float
        Scales whose laws are rejected.
    step : float
        Of the grid that draws are on; 0 where there is none.
    """

    draw: Callable[[int, Keystream], Any]
    law: Callable[[float], Cdf]
    n: int = 200_000
    wrong: tuple[float, ...] = (0.97, 1.03)
    step: float = 1.0


def normal(sigma: float, shift: float = 0.5) -> Callable[[float], Cdf]:
    """Return the law of rounded Gaussian noise."""
    return lambda factor: lambda x: special.ndtr((x + shift) / (factor * sigma))


def discrete_gaussian(sigma: float) -> Callable[[float], Cdf]:
    """Return the law in proportion to exp(-k^2 / 2 sigma^2), from sums; or, far beyond, of rounded noise."""
    if sigma > 5000:
        return normal(sigma)
    support = np.arange(-int(12 * sigma) - 12, int(12 * sigma) + 13)

    def law(factor: float) -> Cdf:
        sums = np.cumsum(np.exp(-0.5 * (support / (factor * sigma)) ** 2))
        return lambda x: np.append(0.0, sums / sums[-1])[np.clip(x.astype(np.int64) - support[0] + 1, 0, len(sums))]

    return law


def discrete_laplace(scale: float, shift: float = 0.0) -> Callable[[float], Cdf]:
    """Return the law in proportion to exp(-|k| / scale); or the continuous one, of numbers that were rounded."""
    if shift:
        return lambda factor: lambda x: stats.laplace(scale=factor * scale).cdf(x + shift)
    return lambda factor: lambda x: stats.dlaplace(1 / (factor * scale)).cdf(x)


def of_probabilities(probabilities: Callable[[float], Floats]) -> Callable[[float], Cdf]:
    """Return the law of outcomes 0, 1, ..."""

    def law(factor: float) -> Cdf:
        sums = np.append(0.0, np.cumsum(probabilities(factor)))
        return lambda x: sums[x.astype(np.int64) + 1]

    return law


def of_density(log_density: Callable[[Floats, float], Floats], low: float, high: float) -> Callable[[float], Cdf]:
    """Return the law of a density on an interval, which need not be normalised."""

    def law(factor: float) -> Cdf:
        x = np.linspace(low, high, 40_001)
        logs = log_density(x, factor)
        sums = integrate.cumulative_simpson(np.exp(logs - logs.max()), x=x, initial=0)
        return lambda values: np.interp(values, x, sums / sums[-1])

    return law


def chi_squared_difference(degrees: float, scale: float, shift: float) -> Callable[[float], Cdf]:
    """Return the law of scale times the difference of two chi-squared numbers (a symmetric variance gamma law)."""
    order, far = (degrees - 1) / 2, 60 + 12 * math.sqrt(degrees)

    def log_density(x: Floats, factor: float) -> Floats:
        size = np.maximum(np.abs(x) / factor, 1e-9)
        return np.asarray(order * np.log(size) + np.log(special.kve(order, size / 2)) - size / 2)

    law = of_density(log_density, -far, far)
    return lambda factor: lambda x: law(factor)((x + shift) / scale)


def replaced(n_levels: int, share: float) -> Drawn:
    """Return what becomes of a cell: nothing, or one of the levels."""
    numerator = round(share * 2**32)

    def draw(n: int, rng: Keystream) -> Any:
        outcome = np.zeros(n)
        places, levels = sample_replacements(n, numerator, n_levels, rng)
        outcome[places] = 1 + levels
        return outcome[:, None]

    return Drawn(draw, of_probabilities(lambda f: np.append(1 - f * share, np.full(n_levels, f * share / n_levels))))


def chosen(
    scores: Callable[[ExponentialMechanism], NDArray[np.int64]],
    mu: float = 0.3,
    wrong: tuple[float, float] = (0.8, 1.25),
) -> Drawn:
    """Return the choices of an exponential mechanism, with probabilities in proportion to exp(-epsilon score / 2)."""
    own = scores(ExponentialMechanism(mu))

    def probabilities(factor: float) -> Floats:
        weights = np.exp(-ExponentialMechanism(factor * mu).epsilon * (own - own.min()) / 2)
        return np.asarray(weights / weights.sum())

    def draw(n: int, rng: Keystream) -> Any:
        return np.array([ExponentialMechanism(mu).choose(own, rng) for _ in range(n)], dtype=float)[:, None]

    return Drawn(draw, of_probabilities(probabilities), 4000, wrong)


def _counts() -> NDArray[np.int64]:
    grid, counts = EqualCells(0.0, 10.0, 64), np.zeros(64, dtype=np.int64)
    add_to_cells(counts, np.random.default_rng(1).normal(4, 1, 60), grid)
    return counts


def on_the_circle(kappa: float, sample: Callable[[Floats, Keystream], Floats], n: int) -> Drawn:
    """Return angles of directions in the plane, with density exp(kappa sin^2)."""

    def draw(n: int, rng: Keystream) -> Any:
        u = np.array([sample(np.array([0.3, 0.3 + kappa]), rng) for _ in range(n)])
        return (np.arctan2(u[:, 1], u[:, 0]) % np.pi)[:, None]

    law = of_density(lambda x, f: kappa * f * np.sin(x) ** 2, 0.0, np.pi)
    return Drawn(draw, law, n, (0.5, 2.0) if kappa else (), 0.0)


def in_pairs(weights: tuple[float, float, float], sample: Callable[[Floats, Keystream], Floats], n: int) -> Drawn:
    """Return the last pair's part of directions in six coordinates whose weights come in pairs.

    The parts of pairs, t = u_5^2 + u_6^2 and so on, have the density exp(sum of w t) on the simplex.
    """
    a, b, c = weights

    def draw(n: int, rng: Keystream) -> Any:
        return (np.array([sample(np.repeat([a, b, c], 2), rng)[4:] for _ in range(n)]) ** 2).sum(axis=1, keepdims=True)

    def log_density(t: Floats, f: float) -> Floats:
        rest = np.maximum(1 - t, 1e-12)
        return np.asarray(f * (c * t + b * rest) + np.log(-np.expm1(-f * (b - a) * rest)))

    return Drawn(draw, of_density(log_density, 0.0, 1.0), n, (0.5, 2.0), 0.0)


def exact_direction(weights: Floats, rng: Keystream) -> Floats:
    """Return a direction as the eigenvector mechanisms draw it, along turned axes."""
    axes = stats.ortho_group.rvs(len(weights), random_state=3)
    matrix = integers(axes @ np.diag(weights) @ axes.T, 60)
    return np.asarray(np.array(draw_direction(matrix, 60, 64, rng), dtype=float) / 2**PLACES @ axes)


P = 12
SCALING = scaling_for([(-1.0, 1.0)] * P)


def entries(
    name: str,
    strength: Strength,
    scale: Callable[[Scaling], float],
    laws: tuple[Callable[[float, float], Callable[[float], Cdf]], Callable[[float, float], Callable[[float], Cdf]]],
    n: int,
    neighbours: str = "replace-one",
) -> list[Drawn]:
    """Return the noise of a mechanism on and off the diagonal, in units of the scale that it should have.

    Entries off the diagonal are those of pairs of columns, which are independent whatever the mechanism is.
    """
    moments = moments_of_batch(np.random.default_rng(5).uniform(-1, 1, (400, P)), SCALING)
    kind = mechanism_named(name)
    assert kind is not None
    mechanism = kind(SCALING, Neighbours(neighbours), strength)
    assert isinstance(mechanism, OneSum)
    own, step = scale(SCALING), mechanism.draw(moments, insecure_keystream(1)).noise.granularity / scale(SCALING)
    columns = np.arange(P), np.arange(0, P, 2)

    def drawn(index: int) -> Callable[[int, Keystream], Any]:
        places = (columns[0], columns[0]) if index == 0 else (columns[1], columns[1] + 1)

        def draw(n: int, rng: Keystream) -> Any:
            noise = np.array([mechanism.draw(moments, rng).matrix[places] for _ in range(n)]) - moments.matrix[places]
            return noise / own

        return draw

    return [Drawn(drawn(index), law(1.0, step / 2), n, (0.9, 1.1), step) for index, law in enumerate(laws)]


def _frobenius(scaling: Scaling) -> float:
    return math.sqrt(2) * (P + scaling.constant**2)


def _largest_l1(scaling: Scaling) -> float:
    square = P + scaling.constant**2
    spread = min(math.sqrt(P * (P + 3) / 2), P / math.sqrt(2) + 1)
    return min(square * math.sqrt(P * (P + 5) / 2), P * spread + 2 * scaling.constant * P)


def _difference(scaling: Scaling, moved: float = 2.0) -> float:
    return moved * (P + scaling.constant**2) / (2 * 3.0)


def _chi_squared(degrees: float, scale: float, shift: float) -> Callable[[float], Cdf]:
    return lambda factor: lambda x: stats.chi2(degrees).cdf((x + shift) / (factor * scale))


DEGREES, OF_WISHART = P + 2, degrees_tight(P + 1, 3.0, 1e-4 * (1 - 1e-3), Neighbours.REPLACE_ONE)
WISHART = (
    lambda s, h: _chi_squared(OF_WISHART, s, h),
    lambda s, h: chi_squared_difference(OF_WISHART, s / 2, h),
)
GAUSSIAN = (lambda s, h: normal(s, h)), (lambda s, h: normal(s * math.sqrt(0.5), h))
DIFFERENCE = (
    lambda s, h: chi_squared_difference(DEGREES, s, h),
    lambda s, h: chi_squared_difference(2 * DEGREES, s / 2, h),
)
MECHANISMS: dict[str, Callable[[], list[Drawn]]] = {
    "gaussian": lambda: entries("gaussian", GaussianDP(1.0), _frobenius, GAUSSIAN, 1500),
    "gaussian, one more row": lambda: entries(
        "gaussian", GaussianDP(math.sqrt(0.5)), _frobenius, GAUSSIAN, 1500, "add-remove"
    ),
    "laplace": lambda: entries("laplace", PureDP(1.0), _largest_l1, (discrete_laplace, discrete_laplace), 1500),
    "wishart": lambda: entries("wishart", ApproximateDP(3.0, 1e-4), lambda s: P + s.constant**2, WISHART, 800),
    "wishart-difference": lambda: entries("wishart-difference", PureDP(3.0), _difference, DIFFERENCE, 1000),
}


def one_eigenvalue() -> Drawn:
    """Return the noise on the only eigenvalue: Laplace noise of scale 2 / (epsilon / 2)."""
    scaling = scaling_for([(-1.0, 1.0)], with_mean=False)
    moments = moments_of_batch(np.full((1000, 1), 0.7), scaling)

    def draw(n: int, rng: Keystream) -> Any:
        mechanism = Eigenvectors(scaling, Neighbours.REPLACE_ONE, PureDP(1.0))
        return np.array([mechanism.draw(moments, rng).matrix - moments.matrix for _ in range(n)])[:, 0]

    return Drawn(draw, lambda f: lambda x: stats.laplace(scale=4 * f).cdf(x), 6000, (0.9, 1.1), 0.0)


def steps_of(kind: str, p: int, *which: type) -> list[Drawn]:
    """Return the noise and the choices of a release in two rounds, of one step of every name, by their own laws."""
    mechanism = two_rounds(p, kind=kind)
    turns = record(mechanism, worst_neighbours(mechanism.places)[0], insecure_keystream(1))
    return [
        _of_step(turn) for turn in {turn.step.name: turn for turn in turns}.values() if isinstance(turn.step, which)
    ]


def _of_step(turn: Turn) -> Drawn:
    step, statistic = turn.step, turn.statistic
    if isinstance(step, NoisySums):
        return Drawn(
            lambda n, rng: np.array([_on_sums(step, statistic, step.draw(statistic, rng)) for _ in range(n)]),
            *(normal(1.0, 0.0), 2000, (0.9, 1.1), 0.0),
        )
    if isinstance(step, NoisyLengths | NoisyCounts):  # both in whole numbers
        exact, sigma = noisy_of(step, statistic)
        size = np.size(exact)

        def draw(n: int, rng: Keystream) -> Any:
            return np.array([np.reshape(step.draw(statistic, rng) - exact, size) for _ in range(n)], dtype=float)

        return Drawn(draw, normal(sigma), max(8000 // size, 200), (0.9, 1.1))
    scores = np.rint(np.arange(32) / step.mechanism.epsilon).astype(np.int64)  # so far apart that chances differ
    return Drawn(
        lambda n, rng: np.array([step.draw(scores, rng) for _ in range(n)], dtype=float)[:, None],
        of_probabilities(lambda f: np.exp(replace(step.mechanism, mu=f * step.mu).log_probabilities(scores))),
        *(800, (0.8, 1.25)),
    )


def _on_sums(step: Any, statistic: Any, outcome: Any) -> Floats:
    """Return the noise on the diagonal, but for the constant's own, in standard deviations."""
    exact, sigma = noisy_of(step, statistic)
    return np.asarray(np.diagonal(outcome.matrix - exact)[:-1] / sigma)


QUICK: dict[str, Callable[[], list[Drawn]]] = {
    **{
        f"discrete Gaussian, {sigma:g}": lambda sigma=sigma: [
            Drawn(lambda n, rng: sample_discrete_gaussian(sigma, (n, 2), rng), discrete_gaussian(sigma))
        ]
        for sigma in (0.3, 1.0, 5.0, 300.0)
    },
    **{
        f"rounded Gaussian, {sigma:g}": lambda sigma=sigma: [
            Drawn(lambda n, rng: sample_rounded_gaussian(sigma, (n, 2), rng), normal(sigma))
        ]
        for sigma in (0.3, 5.0, 300.0, 1e6)
    },
    **{
        f"discrete Laplace, {scale:g}": lambda scale=scale: [
            Drawn(
                lambda n, rng: sample_discrete_laplace(scale, (n, 2), rng), discrete_laplace(scale, scale > 1e6 and 0.5)
            )
        ]
        for scale in (0.3, 4.7, 2.0**50)
    },
    "normal numbers": lambda: [Drawn(lambda n, rng: standard_normals((n, 2), rng), normal(1.0, 0.0), step=0.0)],
    "whole numbers of 100 bits": lambda: [
        Drawn(
            lambda n, rng: np.array(uniform_integers(n, 100, rng), dtype=float)[:, None] / 2.0**100,
            lambda _: lambda x: x,
            20_000,
            (),
            0.0,
        )
    ],
    "replaced levels": lambda: [replaced(2, 0.5), replaced(12, 0.97)],
    "centers": lambda: [chosen(lambda _: center_scores(_counts()))],
    "scales": lambda: [chosen(lambda m: ScaleSearch(m, EqualCells(0.0, 10.0, 64)).scores(_counts(), 25))],
    "few outcomes": lambda: [chosen(lambda _: np.array([3, 0, 7, 40, 3], dtype=np.int64), 0.5, (0.5, 2.0))],
}
CI: dict[str, Callable[[], list[Drawn]]] = {
    **MECHANISMS,
    "precise normal numbers": lambda: [
        Drawn(
            lambda n, rng, places=places: (
                np.array(precise_normals(n, places, rng), dtype=object)[:, None] / (1 << (places + 1))
            ),
            normal(1.0, 0.0),
            20_000,
            wrong=(0.9, 1.1),
            step=0.0,
        )
        for places in (64, 400)
    ],
    "directions in floating point": lambda: [
        on_the_circle(8.0, sample_bingham, 6000),
        in_pairs((0.0, 4.0, 9.0), sample_bingham, 6000),
    ],
    "directions": lambda: [on_the_circle(8.0, exact_direction, 2000), in_pairs((0.0, 4.0, 9.0), exact_direction, 3000)],
    "noise of two rounds": lambda: steps_of("scores", 7, NoisySums, NoisyLengths, NoisyCounts),
    "one eigenvalue": lambda: [one_eigenvalue()],
}
LONG: dict[str, Callable[[], list[Drawn]]] = {
    **{
        f"{kind}, {sigma:g}": lambda sigma=sigma, sample=sample, law=law: [
            Drawn(lambda n, rng: sample(sigma, (n, 2), rng), law(sigma))
        ]
        for kind, sample, law in (
            ("further discrete Gaussian", sample_discrete_gaussian, discrete_gaussian),
            ("further rounded Gaussian", sample_rounded_gaussian, normal),
        )
        for sigma in (0.5, 30.0, 255.0, 256.0, 511.0, 512.0, 1000.0, 4096.0, 1e6)  # where the method changes
    },
    "wishart-difference, one more row": lambda: entries(
        "wishart-difference", PureDP(3.0), lambda s: _difference(s, 1.0), DIFFERENCE, 1000, "add-remove"
    ),
    "choices of two rounds": lambda: steps_of("found", 2, Choice),
    "further directions": lambda: [
        *(on_the_circle(kappa, sample_bingham, 2000) for kappa in (0.0, 2.0, 300.0)),
        *(on_the_circle(kappa, exact_direction, 500) for kappa in (0.0, 300.0)),
        in_pairs((0.0, 1.0, 40.0), exact_direction, 1000),
    ],
}


def p_value(values: Floats, cdf: Cdf, step: float) -> float:
    """Return the p-value of a chi-squared test of draws, by their law."""
    if step and np.ptp(values) / step < BINS:  # a bin for each number, and one for all that are rarer than five draws
        grid = np.arange(values.min(), values.max() + step, step)
        expected = values.size * (cdf(grid) - cdf(grid - step))
        often = expected >= 5
        counts = np.array([np.count_nonzero(values == number) for number in grid[often]])
        rest = values.size - np.array([counts.sum(), expected[often].sum()])
        found, lawful = np.append(counts, rest[0]), np.append(expected[often], max(rest[1], 0.5))
        return float(stats.chisquare(found, lawful * found.sum() / lawful.sum()).pvalue)
    above = cdf(values)
    if step:
        below = cdf(values - step)
        above = below + np.random.default_rng(1).random(values.shape) * (above - below)
    counts = np.bincount(np.minimum((above * BINS).astype(np.int64), BINS - 1), minlength=BINS)
    return float(stats.chisquare(counts).pvalue)


def require_law(drawn: Drawn, n: int) -> None:
    """Fail unless draws follow their law, and no other, and are uncorrelated within rows and between them."""
    values = np.asarray(drawn.draw(n, insecure_keystream(2025)), dtype=np.float64)
    assert p_value(values.ravel(), drawn.law(1.0), drawn.step) > 1e-5
    assert all(p_value(values.ravel(), drawn.law(factor), drawn.step) < 1e-5 for factor in drawn.wrong)
    signs = np.sign(values - np.median(values))
    for series in (signs, np.sign(np.abs(signs) * (np.abs(values) - np.median(np.abs(values))))):
        centred = series - series.mean(axis=0)
        pairs = [(centred[lag:], centred[:-lag]) for lag in range(1, 6)]
        pairs += [(centred, np.roll(centred, 1, axis=1))] if values.shape[1] > 1 else []
        scores = [np.sum(one * two) / math.sqrt(float(np.sum(one**2 * two**2)) or 1.0) for one, two in pairs]
        assert np.abs(scores).max() < LIMIT


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.slow) for name in CI),
        *(pytest.param(name, marks=pytest.mark.long) for name in LONG),
    ],
)
def test_draws_follow_their_law(name: str) -> None:
    """Draws follow the exact law at the true scale, and not at a wrong one, and are uncorrelated."""
    for drawn in {**QUICK, **CI, **LONG}[name]():
        require_law(drawn, drawn.n * (10 if name in LONG else 1))


@pytest.mark.long
@pytest.mark.parametrize("name", [*QUICK, *CI])
def test_many_more_draws_follow_their_law(name: str) -> None:
    """So do ten times as many."""
    for drawn in {**QUICK, **CI}[name]():
        require_law(drawn, 10 * drawn.n)
