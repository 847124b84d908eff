"""
What an indefinite matrix is, and when a problem has no solution
================================================================

A covariance matrix has no negative eigenvalues, because the variance of a sum of columns is never negative. What is
left after subtracting the noise often does have some: it is **indefinite**. ``dp-learn`` uses such a matrix as it is,
and sometimes says that there is no solution at a penalty. This page shows why both are right.
"""

import matplotlib.pyplot as plt
import numpy as np

from dp_bundle import DpGraphError
from dp_learn import debias_covariance, graphical_lasso, smallest_solvable_alpha

# %%
# Eigenvalues below zero
# ----------------------
#
# A chain of 30 columns of unit variance, 300 rows, and noise of the same variance as the signal's. The eigenvalues of
# the noisy covariance scatter around those of :math:`\Sigma + I`. Subtracting the identity moves all of them down by
# exactly 1, scatter included, and the smallest end up below zero: in these directions the rows varied less, by chance,
# than noise alone does on average.

P, N_ROWS = 30, 300
rng = np.random.default_rng(5)
precision = np.eye(P) - 0.45 * (np.eye(P, k=1) + np.eye(P, k=-1))
truth = np.linalg.inv(precision)
scale = np.sqrt(np.diag(truth))
truth = truth / np.outer(scale, scale)
rows = rng.multivariate_normal(np.zeros(P), truth, size=N_ROWS)
noisy = np.cov(rows + rng.normal(size=rows.shape), rowvar=False)
debiased = debias_covariance(noisy, np.ones(P))

# sphinx_gallery_start_ignore
figure, axes = plt.subplots(figsize=(8, 3.8))
order = np.arange(1, P + 1)
for matrix, style, colour, label in (
    (noisy, "s", "C1", "published, with noise"),
    (np.cov(rows, rowvar=False), "^", "C2", "before the noise (nobody has this)"),
    (debiased, "o", "C0", "noise subtracted"),
):
    axes.plot(order, np.linalg.eigvalsh(matrix), style, color=colour, ms=5, label=label)
axes.axhline(0, color="black", lw=1)
axes.set(xlabel="eigenvalue, from the smallest", ylabel="size", xlim=(0, P + 1))
axes.set_title("Subtracting the noise shifts all eigenvalues down, some of them below zero")
axes.legend()
plt.show()
# sphinx_gallery_end_ignore

# %%
negative = np.sum(np.linalg.eigvalsh(debiased) < 0)
print(f"{negative} of {P} eigenvalues are negative; the smallest is {np.linalg.eigvalsh(debiased)[0]:.2f}")

# %%
# Nothing is wrong with such a matrix as an estimate: each of its entries is unbiased. It only fails to be the
# covariance of any table.
#
# When there is a solution
# ------------------------
#
# The graphical lasso looks for the positive definite :math:`\Theta` that minimises
#
# .. math:: -\log\det\Theta + \mathrm{tr}(S \Theta) + \alpha \sum_{ij} |\Theta_{ij}|.
#
# If S has a negative eigenvalue and :math:`\alpha` is small, there is no such minimum: growing :math:`\Theta` in that
# eigenvalue's direction lowers the value for ever. The dual problem says exactly when this happens. It looks for the
# matrix W of largest determinant in the box :math:`|W_{ij} - S_{ij}| \le \alpha`, and :math:`\Theta = W^{-1}`. So there
# is a solution if and only if **some positive definite matrix lies in the box around S**.
#
# With two columns of equal variance this can be drawn. A matrix is a point: its variance w, and its covariance c. It is
# positive definite if :math:`w > |c|`. The point S lies outside of this cone, and the box around it grows with
# :math:`\alpha` until it touches.

small = np.array([[0.5, 0.9], [0.9, 0.5]])
touching = smallest_solvable_alpha(small)

# sphinx_gallery_start_ignore
figure, axes = plt.subplots(figsize=(6.4, 4.6))
w = np.linspace(0, 1.6, 2)
axes.fill_between(w, -w, w, color="C2", alpha=0.2, label="positive definite")
axes.plot(0.5, 0.9, "o", color="C1", ms=8, label="S: variance 0.5, covariance 0.9")
for alpha, style, label in (
    (0.1, ":", "alpha = 0.1: no solution"),
    (touching, "--", f"alpha = {touching:.2g}: the box touches"),
    (0.35, "-", "alpha = 0.35: a solution"),
):
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * alpha + [0.5, 0.9]
    axes.plot(*corners.T, ls=style, color="C0", lw=1.8, label=label)
best = graphical_lasso(small, 0.35, solver="auto").covariance
axes.plot(best[0, 0], best[0, 1], "*", color="black", ms=12, label="W, the solution's covariance")
axes.set(xlabel="variance w", ylabel="covariance c", xlim=(0, 1.6), ylim=(-0.2, 1.4))
axes.set_title("A solution exists where the box around S reaches the cone")
axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()
# sphinx_gallery_end_ignore

# %%
# A penalty on the diagonal moves w, and so helps. Without one (``penalize_diagonal=False``) the box is flat and has to
# be taller:

flat = smallest_solvable_alpha(small, penalize_diagonal=False)
print(f"smallest solvable alpha: {touching:.4f} with the diagonal penalised, {flat:.4f} without")

# %%
# Of 30 columns nothing can be drawn, but computed. Asked for less, the solver refuses, and names the smallest penalty
# that has a solution:

smallest = smallest_solvable_alpha(debiased)
try:
    graphical_lasso(debiased, 0.5 * smallest, solver="auto")
except DpGraphError as error:
    print(error)
print(
    f"correlations of this sample err by about {2 / np.sqrt(N_ROWS):.3f}; the smallest solvable alpha is {smallest:.3f}"
)

# %%
# This is rarely a loss: penalties that small would let edges through that are noise alone.
#
# How an answer is certified
# --------------------------
#
# Any positive definite W in the box bounds from below what any :math:`\Theta` can reach: it is never less than
# :math:`\log\det W + p`. The difference between the value at an answer :math:`\Theta` and this bound is the **duality
# gap**. It says how far the answer is from the best one at most, whatever method found it, and holds for indefinite S
# just as well. A solver stops when its gap is small, and one that cannot get there says so.
#
# To watch a gap fall, here is one of the solvers (``--solver admm``; Boyd et al. 2011) without its refinements. In each
# round W comes for free.


def objective(theta, alpha):
    """Return the value to be minimised; infinite where it is not defined."""
    sign, logarithm = np.linalg.slogdet(theta)
    return np.sum(debiased * theta) + alpha * np.abs(theta).sum() - logarithm if sign > 0 else np.inf


def gaps_of_admm(alpha, rounds, rho=1.0):
    """Yield the duality gap after each round of the alternating direction method of multipliers."""
    sparse, multiplier = np.eye(P), np.zeros((P, P))
    for _ in range(rounds):
        values, vectors = np.linalg.eigh(rho * (sparse - multiplier) - debiased)
        theta = (vectors * (values + np.sqrt(values**2 + 4 * rho)) / (2 * rho)) @ vectors.T
        shifted = theta + multiplier
        sparse = np.sign(shifted) * np.maximum(np.abs(shifted) - alpha / rho, 0.0)
        multiplier = shifted - sparse
        w = debiased + rho * multiplier
        definite = np.linalg.eigvalsh(w)[0] > 0 and np.linalg.eigvalsh(sparse)[0] > 0
        yield objective(sparse, alpha) - np.linalg.slogdet(w)[1] - P if definite else np.inf


# sphinx_gallery_start_ignore
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4))
for ratio, style, colour in ((6.0, "-", "C0"), (3.0, "--", "C1"), (1.5, "-.", "C2")):
    gaps = np.array(list(gaps_of_admm(ratio * smallest, 400)))
    left.loglog(
        np.arange(1, 401), np.maximum(gaps, 1e-13), ls=style, color=colour, label=f"{ratio:g} times the smallest"
    )
left.axhline(1e-6 * P, color="black", ls=":", lw=1.5, label="where dp-learn stops")
left.set(xlabel="rounds", ylabel="duality gap", ylim=(1e-13, None))
left.set_title("The gap proves how good an answer is")
left.legend(loc="lower left")
ratios = 1 + np.geomspace(0.1, 5, 15)
solutions = [graphical_lasso(debiased, ratio * smallest, solver="auto") for ratio in ratios]
largest = [np.abs(solution.precision).max() for solution in solutions]
right.loglog(ratios - 1, largest, "o-", ms=4)
right.set(xlabel="alpha over the smallest solvable one, less 1", ylabel="largest entry of Theta")
right.set_title("Towards the smallest alpha, Theta explodes")
plt.show()
# sphinx_gallery_end_ignore

# %%
# The library's own answer comes with the gap that was reached:

last = solutions[-1]
print(f"at {ratios[-1]:.0f} times the smallest alpha: {np.count_nonzero(np.triu(last.precision, 1))} edges")
print(f"duality gap {last.duality_gap:.1e}: {last.status.message}")

# %%
# What to do
# ----------
#
# Usually nothing: the rules that choose alpha keep to where a solution exists, and ``summary.json`` states
# ``smallest_eigenvalue`` and ``smallest_solvable_alpha``. If you fix alpha yourself and are refused, take a larger one,
# or ``--repair maxnorm``, which first moves S to the nearest positive semidefinite matrix (nearest in the largest
# change of an entry). :doc:`/how-to/choose-an-estimator` compares the choices.
#
# References
# ----------
#
# - O. Banerjee, L. El Ghaoui and A. d'Aspremont (2008), Model selection through sparse maximum likelihood estimation
#   for multivariate Gaussian or binary data, *Journal of Machine Learning Research* 9: the dual problem.
# - S. Boyd et al. (2011), Distributed optimization and statistical learning via the alternating direction method of
#   multipliers, *Foundations and Trends in Machine Learning* 3(1), section 6.5.
# - A. Datta and H. Zou (2017), CoCoLasso for high-dimensional error-in-variables regression, *Annals of Statistics*
#   45(6): the nearest matrix.
