"""Anderson acceleration: fewer steps of a fixed-point iteration, for the price of some memory."""

from __future__ import annotations

import math

import numpy as np

from dp_learn.matrices.linalg import FloatArray


class Anderson:
    """Anderson acceleration of a fixed-point iteration on symmetric matrices, type II, with a safeguard.

    The next point is the combination of the latest images whose residuals cancel best in least squares. Where the
    residual has grown instead, the latest plain image is returned and the history dropped, so that the iteration goes
    on from a point that the map itself has made.

    Parameters
    ----------
    n_features : int
        p; the history takes about ``memory * p**2`` numbers.
    memory : int
        Most differences kept.

    References
    ----------
    Walker and Ni (2011); Zhang, O'Donoghue and Boyd (2020) for safeguards.
    """

    RIDGE = 1e-10  # relative to the trace of the normal equations, against rounding
    CAUTION = 1e-8  # ridge relative to the residual: coefficients stay below 1e4, even where residuals hardly differ
    GROWTH = 2.0  # a residual that grew by more than this is refused

    def __init__(self, n_features: int, memory: int = 10) -> None:
        first, second = np.triu_indices(n_features)
        self._shape = n_features, n_features
        self._upper, self._lower = first * n_features + second, second * n_features + first  # places row by row
        size = self._upper.size
        self._residuals = np.empty((memory, size))
        self._images = np.empty((memory, size))
        self._gram = np.zeros((memory, memory))
        self._last: tuple[FloatArray, FloatArray, float] | None = None
        self._count = 0

    def forget(self) -> None:
        """Drop the history, because the map has changed."""
        self._last, self._count = None, 0

    def next_point(self, point: FloatArray, image: FloatArray) -> FloatArray:
        """Return the point to go on from, given a point and its image under the map."""
        new: FloatArray = image.ravel().take(self._upper)
        residual: FloatArray = new - point.ravel().take(self._upper)
        norm = float(np.linalg.norm(residual))

        last = self._last
        if last is not None and norm > self.GROWTH * last[2]:
            self.forget()
            return self._unpack(last[1])

        self._last = residual, new, norm
        if last is None:
            return image

        # the newest differences take the place of the oldest
        memory = len(self._gram)
        at = self._count % memory
        self._count += 1
        k = min(self._count, memory)
        np.subtract(residual, last[0], out=self._residuals[at])
        np.subtract(new, last[1], out=self._images[at])
        self._gram[at, :k] = self._gram[:k, at] = self._residuals[:k] @ self._residuals[at]

        # least squares, with a ridge against rounding
        ridge = self.RIDGE * float(np.trace(self._gram[:k, :k])) + self.CAUTION * norm * norm
        normal = self._gram[:k, :k] + ridge * np.eye(k)
        try:
            share = np.linalg.solve(normal, self._residuals[:k] @ residual)
        except np.linalg.LinAlgError:  # no progress at all since the last point
            self.forget()
            return image
        return self._unpack(new - share @ self._images[:k])

    def _unpack(self, packed: FloatArray) -> FloatArray:
        full = np.empty(self._shape)
        full.ravel()[self._upper] = packed
        full.ravel()[self._lower] = packed
        return full


def balancing_factor(primal: FloatArray, iterate: FloatArray, step: FloatArray, dual: FloatArray) -> float:
    """Return the factor for ADMM's rho that evens out the relative residuals, 1 when they are even enough.

    Parameters
    ----------
    primal, iterate : ndarray
        The primal residual, and what it is relative to.
    step, dual : ndarray
        The change of the second iterate, and the scaled dual that it is relative to.

    References
    ----------
    Boyd et al. (2011), section 3.4.1; Wohlberg (2017) for the relative residuals.
    """
    r = float(np.linalg.norm(primal)) * float(np.linalg.norm(dual))
    d = float(np.linalg.norm(step)) * float(np.linalg.norm(iterate))
    if r <= 0.0 or d <= 0.0:
        return 1.0
    factor = min(4.0, max(0.25, math.sqrt(r / d)))
    return factor if not 0.7 < factor < 1.4 else 1.0
