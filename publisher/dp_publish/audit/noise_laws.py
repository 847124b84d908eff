"""The law of the noise on a matrix.

`EntryLaw` describes noise that acts entry by entry. Other noise is tested in releases with two coordinates:

- wishart: the diagonal of the noise is chi-squared, with as many degrees of freedom as the release states, and these
  suffice for the policy's (epsilon, delta).
- eigenvectors: the first vector, which is the released matrix's largest, has the density exp(kappa u^T C u) on the
  circle, with kappa = epsilon / 4, or epsilon / 2 for add-remove neighbours. Its doubled angle is von Mises.
- kapralov-talwar: so has its first vector, with kappa half as large. It cannot be read from the releases of two rows,
  as the second vector is not orthogonal to it; but of a million times one row, it is the largest one up to an angle
  that is a thousandth of its spread.

References
----------
Muirhead (1982), Aspects of multivariate statistical theory, theorem 3.2.5, for v^T W v. Mardia & Jupp (2000),
Directional statistics, section 9.4, for the doubled angle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dp_bundle.privacy import Neighbours
from dp_publish.audit.checks import Check, make_check
from dp_publish.audit.hypothesis_tests import cdf_excess
from dp_publish.covariance import MechanismSetting, NoisyMoments, SecondMoments, delta_of_wishart

__all__ = ["EntryLaw", "check_directions", "check_wishart", "exponent_for"]

_Floats: TypeAlias = NDArray[np.float64]

_CLEAR = 64  # steps between the eigenvalues
_TURN = 2.0**40  # steps of a doubled angle, so fine that they are no grid


class EntryLaw:
    """The stated noise of every entry of the triangle, in steps."""

    def __init__(self, stated: NoisyMoments, upper: tuple[NDArray[np.intp], ...], free: NDArray[np.bool_]) -> None:
        self.diagonal = (upper[0] == upper[1])[free]
        step, numbers = stated.granularity or 1.0, stated.parameters
        self.laplace = stated.distribution == "discrete-laplace"
        one = numbers["scale"] if self.laplace else numbers["diagonal_sigma"]
        beside = numbers["scale"] if self.laplace else numbers["off_diagonal_sigma"]
        self.scales = np.where(self.diagonal, one, beside) / step

    def log_ratio(self, noisy: _Floats, one: _Floats, other: _Floats) -> _Floats:
        """Return the logarithm of the likelihood ratio of the two tables."""
        scaled = [(noisy - center) / self.scales for center in (other, one)]
        if self.laplace:
            return np.asarray((np.abs(scaled[0]) - np.abs(scaled[1])).sum(axis=1))
        return np.asarray(0.5 * (scaled[0] ** 2 - scaled[1] ** 2).sum(axis=1))

    def loss(self, one: _Floats, other: _Floats) -> float:
        """Return the stated noise's mu, or epsilon, for two tables."""
        moved = np.abs(one - other) / self.scales
        return float(moved.sum() if self.laplace else np.linalg.norm(moved))

    def cdf(self, scale: float) -> Callable[[_Floats], _Floats]:
        """Return the distribution function of one entry's noise; a step is far below its scale."""
        if self.laplace:
            return lambda steps: np.where(
                steps < 0, 0.5 * np.exp((steps + 0.5) / scale), 1 - 0.5 * np.exp(-(np.abs(steps) + 0.5) / scale)
            )
        return lambda steps: np.asarray(special.ndtr((steps + 0.5) / scale))

    def moments(self, scale: float) -> tuple[float, float]:
        """Return the variance and the fourth moment of one entry's noise."""
        return (2 * scale**2, 24 * scale**4) if self.laplace else (scale**2, 3 * scale**4)


def exponent_for(neighbours: Neighbours, epsilon: float) -> float:
    """Return the exponent that epsilon allows for a score that moves by 1, up or down, or one way only."""
    return epsilon / neighbours.nuclear


def check_directions(
    released: list[_Floats], tables: list[SecondMoments], kappa: float, epsilon: float, alpha: float, step: float = 0.0
) -> Check:
    """Check that the first vector has the density exp(kappa u^T C u), of matrices rounded to multiples of a step."""
    worst = 0.0
    for part, table in zip(released, tables, strict=True):
        spectrum, axes = np.linalg.eigh(table.matrix / table.scaling.square)
        eigenvalues, vectors = np.linalg.eigh(part)
        # else it has no direction, or the grid's
        clear = eigenvalues[:, 1] - eigenvalues[:, 0] > max(_CLEAR * step, 1e-9 * (1 + abs(eigenvalues).max()))
        along = vectors[clear, :, 1] @ axes[:, ::-1]
        turns = np.arctan2(along[:, 1], along[:, 0]) / math.pi
        law = stats.vonmises(kappa * (spectrum[1] - spectrum[0]) / 2 or 1e-12, loc=0.0)
        steps = np.rint((turns - np.rint(turns)) * _TURN)

        def cdf(steps: _Floats, law: Any = law) -> _Floats:
            return np.asarray(law.cdf(np.clip((steps + 0.5) / _TURN, -0.5, 0.5) * 2 * math.pi))

        if len(steps):
            worst = max(worst, cdf_excess(steps, cdf, alpha / len(tables)))
    faults = [f"the first vector does not have the density that epsilon = {epsilon:g} allows"] if worst > 1 else []
    return make_check("noise", faults, "the first vector has the density stated")


def check_wishart(
    released: list[_Floats], tables: list[SecondMoments], run: NoisyMoments, setting: MechanismSetting, alpha: float
) -> Check:
    """Check that the noise's diagonal has the chi-squared law stated, and that its degrees of freedom suffice."""
    m, square = run.parameters["degrees_of_freedom"], run.parameters["scale"]
    step = run.granularity or 1.0
    faults = []
    residuals = [np.rint((part - table.matrix) / step) for part, table in zip(released, tables, strict=True)]
    for j in range(2):
        found = np.concatenate([part[:, j, j] for part in residuals])
        if cdf_excess(found, lambda steps: np.asarray(stats.chi2.cdf((steps + 0.5) * step / square, m)), alpha / 2) > 1:
            faults = [f"the noise on the diagonal is not chi-squared with the {m:g} degrees of freedom stated"]
    epsilon, delta = setting.epsilon or 0.0, setting.delta or 0.0
    nu = round(m) - setting.scaling.n_coordinates + 1
    given = delta_of_wishart(nu, epsilon, setting.neighbours) if nu >= 3 else 1.0
    if given > delta:
        faults.append(f"{m:g} degrees of freedom give delta = {given:.3g} at epsilon = {epsilon:g}, above {delta:g}")
    return make_check("noise", faults, f"chi-squared with {m:g} degrees of freedom as stated, which are enough")
