"""Kapralov and Talwar's comparator: every vector is drawn from the whole sphere, and lambda_i u_i u_i^T is subtracted.

References
----------
Kapralov & Talwar (2013), On differentially private low rank approximation, SODA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_publish.covariance.mechanisms.spectral import DOWN, Floats, SpectralMechanism, Tools


@dataclass(frozen=True)
class KapralovTalwar(SpectralMechanism):
    """Vectors of the whole sphere, with a rank-one subtraction after each."""

    name: ClassVar[str] = "kapralov-talwar"

    def put_together(self, eigenvalues: Floats, tools: Tools) -> tuple[Floats, Floats]:
        """Return the sum of what was subtracted, which nothing shrinks."""
        d = len(eigenvalues)
        kappa = self.exponent * self.row_epsilon / (2 * d) * DOWN
        total = np.zeros((d, d))
        for eigenvalue in eigenvalues:
            u = tools.vector(np.eye(d), total, kappa)
            total = total + eigenvalue * np.outer(u, u)
        return total, total


MECHANISM = KapralovTalwar
