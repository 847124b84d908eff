r"""
What debiasing buys
===================

Independent noise of variance :math:`v_j` on column j adds exactly :math:`v_j` to that column's expected sample variance
and nothing to any covariance. Because the bundle states :math:`v_j`, a reader can subtract it again. This is all that
"debiasing" means: :math:`\hat S = \tilde S - \mathrm{diag}(v)`. What is it good for? Here is a simulation with three
answers: weights need it, a ranking of edges hardly does if all columns have the same noise, and nothing is safe without
it if they have not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from dp_learn import DebiasedGraphicalLassoCV

# %%
# Three worlds
# ------------
#
# Two graphs on 12 columns of unit variance: a **chain**, in which each column is linked to the next, and a **star**, in
# which one hub is linked to all others. Rows are normal, 2,000 of them. Noise is added in three ways: of variance 1, as
# large as the signal's, on each column of the chain; of the same mean variance, but very unequal along the chain; and,
# in the star, of variance 1 on the hub alone.

P, N_ROWS, REPETITIONS = 12, 2000, 5
UPPER = np.triu_indices(P, 1)


def model(links):
    """Return covariance and partial correlations of columns of unit variance with these links of equal weight."""
    precision = np.eye(P)
    for first, second, weight in links:
        precision[first, second] = precision[second, first] = -weight
    covariance = np.linalg.inv(precision)
    partial = -precision
    np.fill_diagonal(partial, 1.0)
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale), partial


chain = model([(index, index + 1, 0.4) for index in range(P - 1)])
star = model([(0, index, 0.27) for index in range(1, P)])
unequal = np.geomspace(0.05, 5.0, P)
worlds = {
    "chain, equal noise": (chain, np.ones(P)),
    "chain, unequal noise": (chain, unequal / unequal.mean()),
    "star, noise on the hub": (star, np.array([1.0] + [0.0] * (P - 1))),
}


# %%
# Each table of noisy rows is learned from twice by the same estimator: told the noise's variance, and told nothing.
# Weights are fitted on the chosen graph without the penalty, so that whatever shrinks them is not the penalty.


def learned_partial_correlations(rows, noise_variance):
    """Return the partial correlations above the diagonal that the estimator reports."""
    precision = DebiasedGraphicalLassoCV(select="ebic", refit=True, noise_variance=noise_variance).fit(rows).precision_
    root = np.sqrt(np.diag(precision))
    return (-precision / np.outer(root, root))[UPPER]


results = {}
for name, ((covariance, partial), variance) in worlds.items():
    truth = partial[UPPER]
    for seed in range(REPETITIONS):
        rng = np.random.default_rng([seed, P])
        rows = rng.multivariate_normal(np.zeros(P), covariance, size=N_ROWS)
        noisy = rows + rng.normal(size=rows.shape) * np.sqrt(variance)
        for told, noise_variance in (("ignored", 0.0), ("subtracted", variance)):
            found = learned_partial_correlations(noisy, noise_variance)
            results.setdefault((name, told), []).append((truth, found))

# %%
# Weights
# -------
#
# Each dot is a pair of columns in one of five repetitions: what it truly is, and what was learned. On the dashed line
# weights are right.

pairs = {key: [np.concatenate(each) for each in zip(*found, strict=True)] for key, found in results.items()}

# sphinx_gallery_start_ignore
COLOURS = {"ignored": "C1", "subtracted": "C0"}
figure, panels = plt.subplots(1, 3, figsize=(10, 4), sharey=True)
for axes, (name, (_, _)) in zip(panels, worlds.items(), strict=True):
    for told, shift, marker in (("ignored", -0.012, "s"), ("subtracted", 0.012, "o")):
        truth, found = pairs[name, told]
        spread = np.random.default_rng(0).uniform(-0.008, 0.008, len(truth))  # so that dots do not hide each other
        axes.plot(truth + shift + spread, found, marker, ms=4, alpha=0.5, color=COLOURS[told], label=f"noise {told}")
    axes.plot([-0.05, 0.45], [-0.05, 0.45], color="black", ls="--", lw=1)
    axes.set(xlabel="true partial correlation", xlim=(-0.05, 0.47))
    axes.set_title(name.capitalize())
panels[0].set_ylabel("learned")
panels[0].legend(loc="upper left", markerscale=1.5)
plt.show()
# sphinx_gallery_end_ignore

# %%
# In numbers: the mean learned weight of a true edge, relative to the truth; the edges found, and how many of them are
# false; and the area under the ROC curve (1 if all true edges rank before all others, by the size of the weight).

print(f"{'':24}{'noise':>12}{'weight / truth':>16}{'edges':>8}{'false':>8}{'AUC':>8}")
scores = {}
for name in worlds:
    for told in ("ignored", "subtracted"):
        rows = []
        for truth, found in results[name, told]:
            edge = truth > 1e-9
            auc = roc_auc_score(edge, np.abs(found))
            rows.append((np.mean(found[edge] / truth[edge]), (found != 0).sum(), ((found != 0) & ~edge).sum(), auc))
        weight, edges, false, auc = scores[name, told] = np.mean(rows, axis=0)
        print(f"{name:24}{told:>12}{weight:16.2f}{edges:8.1f}{false:8.1f}{auc:8.3f}")

# %%
# How to read this
# ----------------
#
# *Equal noise.* :math:`\tilde S` is :math:`S` plus a multiple of the identity. Its eigenvectors are those of S, and
# pairs that were most strongly linked still are, so that their ranking is as good as before. The weights are too small,
# because each column seems to have more variance of its own than it has. And false edges appear: what a noisy
# neighbour no longer explains, the column behind it still does, so that it looks like a neighbour, too.
#
# *Unequal noise.* Columns with much noise look as if they were linked to nothing, and columns with little take over
# their links. Now the ranking suffers as well.
#
# *Noise on the hub.* All other columns are linked through the hub alone. With noise on it, it cannot explain what they
# have in common. So they seem linked to each other: the graph that is learned without debiasing has edges between
# most of them. Subtracting the noise gives the star back. (Solid lines are true edges, dashed ones are false.)

star_graphs = {told: results["star, noise on the hub", told][0][1] for told in ("ignored", "subtracted")}

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 2, figsize=(9, 4.2))
angles = np.concatenate([[0.0], np.linspace(0, 2 * np.pi, P)[:-1]])
place = np.column_stack([np.cos(angles), np.sin(angles)])
place[0] = 0.0
for axes, (told, found) in zip(panels, star_graphs.items(), strict=True):
    for first, second, weight in zip(*UPPER, found, strict=True):
        if weight:
            style = {"color": "C0", "ls": "-"} if first == 0 else {"color": "C1", "ls": "--"}
            axes.plot(*place[[first, second]].T, lw=1 + 6 * abs(weight), alpha=0.8, **style)
    axes.plot(*place.T, "o", ms=13, color="white", mec="black")
    axes.plot(0, 0, "o", ms=20, color="black")
    axes.text(0, 0, "hub", color="white", ha="center", va="center", fontsize=8)
    axes.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
    axes.axis("off")
    axes.set_title(f"Noise {told}: {np.sum(found != 0)} edges, {np.sum(found[UPPER[0] > 0] != 0)} of them false")
plt.show()
# sphinx_gallery_end_ignore

# %%
# The price
# ---------
#
# Subtracting makes estimates unbiased, not precise: the *scatter* that the noise caused stays, and error bars have to
# account for it (:ref:`next pages <sphx_glr_explained_plot_6_intervals.py>`). And the matrix that is left may be
# :ref:`indefinite <sphx_glr_explained_plot_5_indefinite.py>`.
#
# The simulation is small, and one estimator's. The benchmarks in ``benchmarks/rules.py`` compare many on real tables
# (ADR 0010).
#
# References
# ----------
#
# - Y. Guo et al. (2025), Graph structure learning with privacy guarantees for open graph data, arXiv 2507.19116,
#   theorems 4.3 and 4.5: the subtraction.
