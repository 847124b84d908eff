"""
What a confidence interval must know about the noise
====================================================

An interval that is said to cover the truth in 95 % of cases should do so. On noisy rows the usual one does not: it is
in the wrong place, because noise biases partial correlations, and too short, because noise also makes them scatter.
This page counts how often three kinds of intervals are right.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dp_bundle import open_bundle
from dp_learn import debias_covariance, estimate_moments, learn_graph
from dp_publish import Policy, load_key, publish

# %%
# The experiment
# --------------
#
# A chain of 6 columns of unit variance with partial correlations of about 0.4 to 0.45, and 2,000 rows of it. Each table
# is published with one cell protected, at ``mu`` of 16, 8 and 6, which is noise of 0.25, 1 and 1.8 times the variance.
# (Protection as weak as this lets us see something in so few rows.) A reader then wants 95 % intervals for the partial
# correlations. Three readers do so in three ways:
#
# - **ignored**: the usual interval (Fisher's z) from the noisy rows, as if nothing had been added;
# - **subtracted**: the noise's variance is subtracted from the covariance, and then the usual interval is taken, as if
#   the rows had come so;
# - **dp-learn**: the noise is in the estimate and in the standard error.

os.environ["DPGRAPH_HOME"] = folder = tempfile.mkdtemp()
P, N_ROWS, REPETITIONS = 6, 2000, 25
NAMES = [f"x{index}" for index in range(P)]
UPPER = np.triu_indices(P, 1)
covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))


def partial_correlations(covariance):
    """Return the partial correlations above the diagonal."""
    precision = np.linalg.inv(covariance)
    root = np.sqrt(np.diag(precision))
    return (-precision / np.outer(root, root))[UPPER]


def usual_interval(covariance):
    """Return Fisher's 95 % interval of each partial correlation, which knows of no noise."""
    z = np.arctanh(np.clip(partial_correlations(covariance), -0.999, 0.999))
    half = 1.96 / np.sqrt(N_ROWS - (P - 2) - 3)
    return np.tanh(z - half), np.tanh(z + half)


def three_intervals(mu, seed):
    """Publish a new table and return the intervals of the three readers, each a pair of arrays."""
    rng = np.random.default_rng([seed, int(mu)])
    rows = pd.DataFrame(rng.multivariate_normal(np.zeros(P), covariance, size=N_ROWS), columns=NAMES)
    policy = Policy.model_validate(
        {
            "dataset": {"name": f"table-{mu}-{seed}"},
            "privacy": {"unit": "cell", "mu": mu},
            "columns": {"*": {"bounds": [-4.0, 4.0]}},
        }
    )
    path = f"{folder}/{mu}-{seed}.bundle.tar"
    publish(rows, policy, out=path, key=load_key())
    with open_bundle(path) as bundle:
        noisy = estimate_moments(bundle).covariance
        variances = [column.noise.variance for column in bundle.release.columns]
        inference = learn_graph(bundle).estimate.inference
    nothing = np.full((P, P), np.nan)  # where so little information is left that dp-learn gives no interval, as it may
    low, high = (nothing, nothing) if inference is None else inference.partial_intervals()
    return usual_interval(noisy), usual_interval(debias_covariance(noisy, variances)), (low[UPPER], high[UPPER])


truth = partial_correlations(covariance)
edges = np.abs(truth) > 1e-9
READERS = ("ignored", "subtracted", "dp-learn")
STRENGTHS = {16.0: 0.25, 8.0: 1.0, 6.0: (8 / 6) ** 2}
intervals = {mu: [three_intervals(mu, seed) for seed in range(REPETITIONS)] for mu in STRENGTHS}

# %%
# One edge, 25 times
# ------------------
#
# The same edge of the chain, in 25 tables with as much noise as signal. Intervals that miss the truth are dashed and
# carry a cross.

edge = int(np.flatnonzero(edges)[len(NAMES) // 2 - 1])
# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 3, figsize=(10, 4.6), sharex=True, sharey=True)
for index, (axes, reader) in enumerate(zip(panels, READERS, strict=True)):
    missed = 0
    for row, each in enumerate(intervals[8.0]):
        low, high = each[index][0][edge], each[index][1][edge]
        covers = low <= truth[edge] <= high
        missed += high < truth[edge] or truth[edge] < low
        style = {"color": "C0", "ls": "-"} if covers else {"color": "C1", "ls": (0, (2, 1))}
        axes.plot([low, high], [row, row], lw=1.8, **style)
        axes.plot((low + high) / 2, row, "o" if covers else "X", ms=4 if covers else 6, color=style["color"])
    axes.axvline(truth[edge], color="black", lw=1)
    axes.set(xlabel="partial correlation", yticks=[], xlim=(-0.1, 0.9), ylim=(-1, 25.5))
    axes.set_title(f"Noise {reader}: {missed} of 25 miss" if index < 2 else f"{reader}: {missed} of 25 miss")
    axes.grid(axis="y", visible=False)
panels[0].set_ylabel("25 tables")
panels[0].annotate("truth", (truth[edge], 25.5), xytext=(4, 0), textcoords="offset points", va="top")
plt.show()
# sphinx_gallery_end_ignore

# %%
# How often they are right
# ------------------------
#
# All edges and all tables, at each strength. The bars are what chance may do to a count of so many tables (two standard
# errors).


def shares_covered(mu, index, which):
    """Return for each table the share of these pairs that a reader's intervals cover, where there are intervals."""
    ends = [each[index] for each in intervals[mu] if not np.isnan(each[index][0]).any()]
    return np.array([np.mean(((low <= truth) & (truth <= high))[which]) for low, high in ends])


print("noise / signal" + "".join(f"{reader:>14}" for reader in READERS))
for which, what in ((edges, "edges"), (~edges, "pairs without an edge")):
    for mu, ratio in STRENGTHS.items():
        cells = "".join(f"{shares_covered(mu, index, which).mean():14.1%}" for index in range(3))
        print(f"{ratio:14.2f}{cells}   of {what}")

# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), sharey=True)
ratios = np.array(list(STRENGTHS.values()))
for axes, which, what in zip(panels, (edges, ~edges), ("edges", "pairs without an edge"), strict=True):
    for index, (reader, style) in enumerate(zip(READERS, ("s--", "^-.", "o-"), strict=True)):
        covered = [shares_covered(mu, index, which) for mu in STRENGTHS]
        error = [2 * shares.std(ddof=1) / np.sqrt(len(shares)) for shares in covered]
        places, colour = ratios * 1.03 ** (index - 1), ("C1", "C2", "C0")[index]
        axes.errorbar(places, [shares.mean() for shares in covered], error, fmt=style, color=colour, label=reader)
    axes.axhline(0.95, color="black", ls=":", lw=1.5)
    axes.set(xscale="log", xlabel="noise / signal", ylim=(-0.03, 1.05))
    axes.set_xticks(ratios, [f"{ratio:.2g}" for ratio in ratios])
    axes.minorticks_off()
    axes.set_title(f"Share of {what} that 95 % intervals cover")
panels[0].set_ylabel("covered")
panels[0].legend(loc="center left")
plt.show()
# sphinx_gallery_end_ignore

# %%
# Why
# ---
#
# *Ignoring the noise* puts the interval in the wrong place: the partial correlations of noisy columns are not those of
# the columns. More rows make it worse, because the interval then shrinks around the wrong value.
#
# *Subtracting alone* puts it in the right place but leaves it too short. The estimate's scatter includes that of the
# noise: with a noise-to-signal ratio r, the standard error of a correlation near zero is :math:`(1 + r) / \sqrt n`, not
# :math:`1 / \sqrt n`, and partial correlations magnify it further.
#
# *dp-learn* computes the error of :math:`T = 2 \Theta - \Theta \hat S \Theta` (Jankova and van de Geer 2015) from the
# rows and from the stated law of the noise, and turns it around for partial correlations in Fieller's way. That is
# possible only because the bundle states the noise exactly. ADR 0007 has the
# choices behind it, and :doc:`known limits </known-limits>` where intervals fail.

mean_lengths = [np.nanmean([each[index][1] - each[index][0] for each in intervals[8.0]]) for index in range(3)]
for reader, length in zip(READERS, mean_lengths, strict=True):
    print(f"{reader:>12}: mean length {length:.3f} with as much noise as signal")

# %%
# References
# ----------
#
# - J. Jankova and S. van de Geer (2015), Confidence intervals for high-dimensional inverse covariance estimation,
#   *Electronic Journal of Statistics* 9.
# - E. C. Fieller (1954), Some problems in interval estimation, *Journal of the Royal Statistical Society B* 16(2).
