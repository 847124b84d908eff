"""
Why noise on rows needs so many rows
====================================

Rows are the most useful thing to publish: any tool reads them. Under the same guarantee they are also the least
accurate, often by orders of magnitude. This page shows where that comes from, and measures it on real bundles.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle

from dp_bundle import open_bundle
from dp_learn import debias_covariance, estimate_moments, learn_graph
from dp_publish import Policy, load_key, publish

# %%
# Each row must hide by itself
# ----------------------------
#
# The noise on a row has to make any two rows within the bounds hard to tell apart, whatever else is in the table. With
# p columns that share a row's :math:`\mu^2` evenly, and bounds of width w,
#
# .. math:: \sigma = \frac{w \sqrt p}{\mu},
#
# and the number of rows does not occur in it. Five columns with a standard deviation of 1, bounds of -4 to 4, and
# ``mu = 3``, which is not a strong protection:

os.environ["DPGRAPH_HOME"] = folder = tempfile.mkdtemp()
MU, P, BOUNDS = 3.0, 5, (-4.0, 4.0)
NAMES = [f"x{index}" for index in range(P)]
CARD = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
TRUTH = 0.6 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))  # correlations, of columns of unit variance


def publish_rows_of(n_rows, release, seed=0):
    """Publish made-up rows and return the path of the bundle."""
    rng = np.random.default_rng([seed, n_rows])
    rows = pd.DataFrame(rng.multivariate_normal(np.zeros(P), TRUTH, size=n_rows), columns=NAMES)
    policy = Policy.model_validate(
        {
            "dataset": {"name": f"{release}-{n_rows}-{seed}"},
            "privacy": {"unit": "row", "mu": MU, "release": release},
            "columns": {"*": {"bounds": BOUNDS}},
        }
    )
    path = f"{folder}/{release}-{n_rows}-{seed}.bundle.tar"
    publish(rows, policy, out=path, key=load_key())
    return rows, path


rows, path = publish_rows_of(400, "rows")
with open_bundle(path) as bundle:
    noisy = pd.concat(batch.to_pandas() for batch in bundle.batches())
    sigma = bundle.release.columns[0].noise.sigma

# sphinx_gallery_start_ignore
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.6))
reach = 3.2 * sigma
for axes, table, title in (
    (left, rows, f"Before: a correlation of {TRUTH[0, 1]:g}"),
    (right, noisy, f"Published at mu = {MU:g}: noise of {sigma:.1f} in each column"),
):
    axes.plot(table["x0"], table["x1"], ".", ms=4, color="C0", alpha=0.6)
    axes.add_patch(Rectangle((-4, -4), 8, 8, fill=False, ec="C1", lw=1.5))
    axes.annotate("the bounds", (4, 4), xytext=(3, 3), textcoords="offset points", color="C1", bbox=CARD)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xlabel="x0", ylabel="x1", aspect="equal")
    axes.set_title(title)
plt.show()
# sphinx_gallery_end_ignore

# %%
# The noise has many times the variance of the values:

ratio = sigma**2
print(f"sigma = {sigma:.2f}; the noise has {ratio:.1f} times the variance of the values")

# %%
# Averages over rows recover what the noise hid
# ---------------------------------------------
#
# A covariance is an average over n products. Each product carries noise, and the average of n of them carries :math:`1
# / \sqrt n` of it. With a noise-to-signal ratio :math:`r = \sigma^2 / \mathrm{var}(x)`, a correlation near zero that is
# estimated from the rows, after subtracting the noise's variance, has a standard error of
#
# .. math:: \frac{1 + r}{\sqrt n},
#
# instead of :math:`1 / \sqrt n` without noise. To halve it takes four times as many rows.
#
# The other way is to average first: a **covariance release** sums the products over all rows and adds noise once. One
# row can move that sum only so far, whatever n is, so the noise stays the same while the sum grows. Its share of a
# correlation falls as :math:`\tau / n`, and vanishes beside the sampling error of order :math:`1 / \sqrt n`, which no
# release can avoid. :math:`\tau` does not depend on n either.
#
# Now both are measured, with one row protected at ``mu = 3`` in either release: the root mean square error of the ten
# correlations, over four releases (of the largest table: one).

UPPER = np.triu_indices(P, 1)


def errors_of(n_rows, release, seed):
    """Return the errors of the correlations that a reader estimates from a release."""
    _, path = publish_rows_of(n_rows, release, seed)
    with open_bundle(path) as bundle:
        if release == "rows":  # the columns' variance is 1: noise may leave too little of it to divide by
            variances = [column.noise.variance for column in bundle.release.columns]
            return (debias_covariance(estimate_moments(bundle).covariance, variances) - TRUTH)[UPPER]
        covariance = learn_graph(bundle, error_bars=False).estimate.covariance
    deviations = np.sqrt(np.diag(covariance))
    return (covariance / np.outer(deviations, deviations) - TRUTH)[UPPER]


COUNTS = (300, 1000, 3000, 10_000, 30_000, 100_000, 300_000)
measured = {
    release: [
        np.sqrt(np.mean([errors_of(n, release, seed) ** 2 for seed in range(4 if n < 300_000 else 1)])) for n in COUNTS
    ]
    for release in ("rows", "covariance")
}

counts = np.geomspace(200, 500_000, 50)
# sphinx_gallery_start_ignore
figure, axes = plt.subplots(figsize=(8, 4.6))
axes.loglog(counts, (1 + ratio) / np.sqrt(counts), color="C1", lw=1.5, label="(1 + r) / sqrt(n)")
axes.loglog(COUNTS, measured["rows"], "s", color="C1", ms=7, label="from noisy rows, measured")
axes.loglog(COUNTS, measured["covariance"], "o", color="C0", ms=7, label="from second moments, measured")
sampling = np.sqrt(np.mean((1 - TRUTH[UPPER] ** 2) ** 2))  # times 1 / sqrt(n): the error without any noise
axes.loglog(counts, sampling / np.sqrt(counts), color="black", ls=":", lw=1.5, label="without any noise")
axes.axhline(0.1, color="C2", ls="--", lw=1.2)
axes.annotate("an error of 0.1", (counts[-1], 0.1), xytext=(0, 4), textcoords="offset points", ha="right", color="C2")
axes.set(xlabel="rows", ylabel="error of a correlation", xlim=(200, 500_000), ylim=(5e-4, 5))
axes.set_title(f"The same guarantee, mu = {MU:g} for a row: second moments need far fewer rows")
axes.legend(loc="lower left")
plt.show()
# sphinx_gallery_end_ignore

# %%
# In numbers:

print("     rows   from rows   from second moments")
for n, from_rows, from_moments in zip(COUNTS, *measured.values(), strict=True):
    print(f"{n:9,}   {from_rows:9.3f}   {from_moments:9.4f}")
print(f"an error of 0.1 from noisy rows takes {((1 + ratio) / 0.1) ** 2:,.0f} rows by the formula")

# %%
# The more columns, the worse: a row's :math:`\mu^2` is shared among them, so r grows with p, and the number of rows
# with its square.

for p in (2, 5, 10, 30, 100):
    r = (8 * np.sqrt(p) / MU) ** 2
    needed = ((1 + r) / 0.1) ** 2
    print(f"{p:4d} columns: noise of {r:6.1f} times the variance; an error of 0.1 takes {needed:13,.0f} rows")

# %%
# So rows are for tables of very many rows, or for weak protection, as of single cells. For anything else publish second
# moments: :doc:`/how-to/choose-rows-or-covariance`. ``dp-publish plan`` computes the two for your own table, before
# anything is spent.
