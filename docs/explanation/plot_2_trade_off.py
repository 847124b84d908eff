"""
Trade-off curves
================

An attacker who must decide between two candidates, A and B, errs in two ways. Saying "B" although the row is A is an
error of type I; saying "A" although it is B is one of type II. A cautious attacker has few errors of the first kind and
many of the second. The **trade-off curve** of a release shows the smallest type II error that is possible at each
type I error. It says all that a guarantee can say: ``mu``, and every pair of epsilon and delta, can be read off it.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from dp_bundle import open_bundle
from dp_bundle.base.quoting import percent_at_most
from dp_publish import Policy, load_key, publish

# %%
# The curve of mu, and a bundle under attack
# ------------------------------------------
#
# For ``mu`` the curve is :math:`T(\alpha) = \Phi(\Phi^{-1}(1 - \alpha) - \mu)` (Dong, Roth and Su 2022). The diagonal
# is mere guessing: whoever is wrong about A once in ten times is wrong about B nine times in ten.
#
# The dots are measured. A coin was tossed for each of 40,000 rows, which put them at their lower bounds (A) or at their
# upper bounds (B); the table was published with one row protected at ``mu = 1``; and an attacker, who knows the noise,
# added up the columns and said "B" above some threshold. Each threshold is a dot.

os.environ["DPGRAPH_HOME"] = folder = tempfile.mkdtemp()
rng = np.random.default_rng(2)
coins = rng.integers(0, 2, 40_000)
names = ["one", "two", "three", "four"]
table = pd.DataFrame({name: coins.astype(float) for name in names})


def publish_at(mu, out):
    """Publish the table of coins with one row protected at mu; return the receipt."""
    policy = Policy.model_validate(
        {"dataset": {"name": "coins"}, "privacy": {"unit": "row", "mu": mu}, "columns": {"*": {"bounds": [0.0, 1.0]}}}
    )
    return publish(table, policy, out=f"{folder}/{out}", key=load_key())


receipt = publish_at(1.0, "coins.bundle.tar")
with open_bundle(f"{folder}/coins.bundle.tar") as bundle:
    rows = np.concatenate([batch.to_pandas().to_numpy() for batch in bundle.batches()])
score = rows.sum(axis=1)  # the best test, as all columns have the same noise
thresholds = np.quantile(score, [0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95])
type_1 = np.array([np.mean(score[coins == 0] > threshold) for threshold in thresholds])
type_2 = np.array([np.mean(score[coins == 1] <= threshold) for threshold in thresholds])

alpha = np.linspace(1e-6, 1 - 1e-6, 500)


def trade_off(alpha, mu):
    """Return the smallest type II error at a type I error."""
    return norm.cdf(norm.ppf(1 - alpha) - mu)


# sphinx_gallery_start_ignore
figure, axes = plt.subplots(figsize=(5.6, 5.2))
axes.plot(alpha, 1 - alpha, color="black", ls=":", lw=1.5, label="mu = 0: guessing")
for mu, style, colour in ((0.5, "-.", "C2"), (1.0, "-", "C0"), (2.0, "--", "C1"), (4.0, (0, (5, 1, 1, 1, 1, 1)), "C3")):
    axes.plot(alpha, trade_off(alpha, mu), ls=style, color=colour, label=f"mu = {mu:g}")
axes.plot(type_1, type_2, "o", color="C0", ms=7, mec="white", label="measured at mu = 1")
axes.set(xlabel="type I error: says B, is A", ylabel="type II error: says A, is B", xlim=(0, 1), ylim=(0, 1))
axes.set_aspect("equal")
axes.set_title("The attacked bundle lies on the curve of its mu")
axes.legend()
plt.show()
# sphinx_gallery_end_ignore

# %%
# No attack can fall below the curve; this one, the best, lies on it but for chance:

furthest = np.abs(type_2 - trade_off(type_1, 1.0)).max()
print(f"the dots are at most {furthest:.3f} away from the curve")
print(f"allowing 5 % of type I errors, the attacker misses {trade_off(0.05, 1.0):.0%} of the Bs at mu = 1")

# %%
# Strengths add up as squares
# ---------------------------
#
# Independent noise on k releases adds up: whoever reads all of them faces :math:`\mu = \sqrt{\mu_1^2 + \dots +
# \mu_k^2}`, exactly. This is how the ledger counts. Pairs of epsilon and delta have no such rule: adding the epsilons
# (and the deltas) is allowed, and gives away far more than was lost.


def delta_of(mu, epsilon):
    """Return delta of a mu at an epsilon."""
    return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))


def epsilon_of(mu, delta=1e-6):
    """Return the smallest epsilon of a mu at a delta."""
    return brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, 500.0)


totals = [publish_at(0.25, f"month-{month}.bundle.tar").release.cumulative.mu for month in range(1, 4)]
print("mu = 1 was spent above; three releases at mu = 0.25 bring the ledger's total to", end=" ")
print(", ".join(f"{total:.4f}" for total in totals))

months = np.arange(1, 25)
# sphinx_gallery_start_ignore
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
for k, style, colour in ((1, "-.", "C2"), (4, "-", "C0"), (16, "--", "C1")):
    mu = np.sqrt(k) * 0.25
    left.plot(alpha, trade_off(alpha, mu), ls=style, color=colour, label=f"{k} at 0.25: mu = {mu:g}")
left.plot(alpha, 1 - alpha, color="black", ls=":", lw=1.5)
left.set(xlabel="type I error", ylabel="type II error", xlim=(0, 1), ylim=(0, 1))
left.set_title("16 releases cost 4 times as much as one")
left.legend()
added = [month * epsilon_of(0.25, 1e-6 / month) for month in months]
right.plot(months, added, "s--", ms=4, color="C1", label="epsilons added up")
right.plot(months, [epsilon_of(0.25 * np.sqrt(month)) for month in months], "o-", ms=4, label="mu added up as squares")
right.set(xlabel="releases at mu = 0.25", ylabel="total epsilon at delta = 1e-06", xlim=(1, 24), ylim=(0, None))
right.set_title("Adding epsilons overstates what was lost")
right.legend()
plt.show()
# sphinx_gallery_end_ignore

# %%
# Cell, row, entity
# -----------------
#
# The same rule leads from a cell to its row, and from a row to all rows of one person, because noise on different cells
# is independent. A release of rows therefore promises something to each of these units, whichever one the policy names.
# The bundle's totals state the others. A person with nine rows is told apart three times as easily as one row; to hold
# all rows of a person to one ``mu``, name the column that identifies them as the policy's entity.

guarantee, total = receipt.release.guarantee, receipt.release.cumulative
cell = np.sqrt(2 * total.other_units_rho["cell"])
print(f"one row:  mu = {guarantee.mu:g}, as the policy says")
print(f"one cell: mu = {cell:g}, that is 1 / sqrt({len(names)} columns)")
print(f"nine rows of one person: mu = sqrt(9) * {guarantee.mu:g} = {3 * guarantee.mu:g}")

# %%
# Why one pair of epsilon and delta hides the rest
# ------------------------------------------------
#
# Take two releases with the same epsilon at the same delta. One has Gaussian noise. The other is randomised response:
# it publishes which candidate the row is, truthfully with probability :math:`e^\varepsilon / (1 + e^\varepsilon)`. By
# the pair nobody can tell them apart.

epsilon = epsilon_of(1.0)
gaussian = trade_off(alpha, 1.0)
response = np.maximum(0, np.maximum(1 - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - alpha)))

# sphinx_gallery_start_ignore
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
left.plot(alpha, gaussian, color="C0", label="Gaussian noise, mu = 1")
left.plot(alpha, response, color="C1", ls="--", label="randomised response")
left.plot(alpha, 1 - alpha, color="black", ls=":", lw=1.5, label="guessing")
left.set(xlabel="type I error", ylabel="type II error", xlim=(-0.02, 1), ylim=(-0.02, 1))
left.set_title("The trade-off curves of the two are far apart")
left.legend(loc="upper right")
epsilons = np.linspace(0.01, 8, 800)
losses = np.maximum((np.exp(epsilon) - np.exp(epsilons)) / (1 + np.exp(epsilon)), 1e-30)
right.semilogy(epsilons, delta_of(1.0, epsilons), color="C0")
right.semilogy(epsilons, losses, color="C1", ls="--")
right.plot(epsilon, 1e-6, "o", color="black", ms=7)
right.annotate(f"epsilon = {epsilon:.2f}\ndelta = 1e-06", (epsilon, 1e-6), xytext=(14, 2), textcoords="offset points")
right.set(xlabel="epsilon", ylabel="delta", xlim=(0, 8), ylim=(1e-12, 2))
right.set_title("Their pairs agree at a single point")
plt.show()
# sphinx_gallery_end_ignore

# %%
right_gaussian = norm.cdf(0.5)
right_response = np.exp(epsilon) / (1 + np.exp(epsilon))
print(f"epsilon = {epsilon:.2f} at delta = 1e-06: at most {percent_at_most(right_gaussian)} of guesses are right with")
print(f"Gaussian noise, and {percent_at_most(right_response)} with randomised response")

# %%
# That is why ``dp-publish`` asks for ``mu``, why a bundle states it together with a table of pairs, and why ledgers add
# ``mu``. If you must compare a bundle with a rule that names one pair, compare the whole table. A bundle that states a
# pure epsilon (some :doc:`second-moment releases </how-to/choose-rows-or-covariance>` do) is the opposite case: its
# epsilon looks large beside what an attacker can do on average, and bounds the rarest case as well.
#
# References
# ----------
#
# - J. Dong, A. Roth and W. Su (2022), Gaussian differential privacy, *Journal of the Royal Statistical Society B*
#   84(1).
# - P. Kairouz, S. Oh and P. Viswanath (2015), The composition theorem for differential privacy, *ICML*.
