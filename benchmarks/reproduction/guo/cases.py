"""The tables of Guo et al. that are run again: their rows, their truths, and their noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_bundle.manifest.noise import discrete_gaussian_variance
from dp_learn.covariance.sample import Sample
from reproduction.data_sets import Floats, cell_signalling, chickenpox, congress, soil
from reproduction.guo.grids import grid_voltages
from reproduction.rules import above, rank, read_rows, surest
from reproduction.simulation import add_discrete_noise, add_gaussian_noise, noise_deviation

RULES = ("fixed", "paper", "default", "evidence", "neighbourhood")
UNSELECTED = ("fixed", "evidence", "neighbourhood")  # which choose no lambda from the data
LEAST_SIGMA = 0.05  # the least of the discrete sampler; with less, hardly any value would change


@dataclass(frozen=True)
class Case:
    """A table, and what it is compared with.

    Attributes
    ----------
    folder : str
        Its data set.
    printed : str
        Its column of the printed table.
    load : callable
        Given the name and the folder of data sets, returns the rows and the known graph, or None.
    alpha : float
        The lambda of the `fixed` rule, found by trying: that which comes nearest to the printed column.
    discrete : bool
        Whether the noise is discrete.
    rules : tuple of str
        Those that are run.
    once : tuple of str
        Those that are run in the first repetition alone: slow ones, or one that finds nothing in any.
    """

    folder: str
    printed: str
    load: Callable[[str, Path], tuple[Floats, NDArray[np.bool_] | None]]
    alpha: float
    discrete: bool = False
    rules: tuple[str, ...] = RULES
    once: tuple[str, ...] = ()

    def rules_of(self, repetition: int) -> tuple[str, ...]:
        """Return the rules of a repetition."""
        return tuple(rule for rule in self.rules if repetition == 0 or rule not in self.once)


CASES = {
    "cell signalling": Case("sachs", "cell_signalling", lambda _, data: cell_signalling(data), 0.005),
    "grid of 14 buses": Case("powergrid", "power_grid_11_bus", grid_voltages, 0.05),
    "grid of 33 buses": Case("powergrid", "power_grid_11_bus", grid_voltages, 0.05, once=("default",)),
    "grid of 118 buses": Case("powergrid", "power_grid_115_bus", grid_voltages, 0.05, rules=UNSELECTED),
    "Congress": Case(
        "congress_les", "us_congress", lambda _, data: (congress(data), None), 0.88, once=("neighbourhood",)
    ),
    "chickenpox": Case("chickenpox", "chickenpox", lambda _, data: chickenpox(data), 50.0, discrete=True),
    "soil": Case("soil", "soil_microbiome", lambda _, data: (soil(data), None), 50.0, discrete=True),
}


def known_or_found(
    case: Case, rows: Floats, known: NDArray[np.bool_] | None, rules: tuple[str, ...] = ("fixed", "evidence")
) -> dict[str, NDArray[np.bool_]]:
    """Return the truth for each rule: the known graph, or what the rule finds without noise."""
    if known is not None:
        return dict.fromkeys(rules, above(known))
    clean = read_rows(rows, 0.0, folds=True)
    found = {rule: rank(clean, rule, case.alpha) for rule in rules}
    n_edges = int(found["fixed"].edges.sum())
    return {rule: surest(each.scores, n_edges) if rule == "evidence" else each.edges for rule, each in found.items()}


def noisy_sample(case: Case, rows: Floats, snr_db: str, rng: np.random.Generator) -> Sample:
    """Return the rows under noise, read as a researcher would."""
    sigma = noise_deviation(rows, snr_db)
    if case.discrete and sigma < LEAST_SIGMA:
        return read_rows(rows, 0.0, folds=True)
    if case.discrete:
        variance = discrete_gaussian_variance(sigma)
        return read_rows(add_discrete_noise(rows, sigma, int(rng.integers(2**32))), variance, folds=True)
    return read_rows(add_gaussian_noise(rows, sigma, rng), sigma**2, folds=True)
