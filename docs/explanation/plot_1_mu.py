r"""
What mu means
=============

The strength of a release is one number, ``mu``. It answers one question: if somebody already knew nearly everything,
how much better could they guess the rest after reading the bundle?

Picture an attacker who knows every row of the table but yours, and knows that yours is one of two candidates, A or B.
They read the release and guess. A release has ``mu``-Gaussian differential privacy if, whatever the two candidates
are, the attacker guesses no better than somebody who is shown a single number that was drawn from the normal law
:math:`N(0, 1)` if the row is A, and from :math:`N(\mu, 1)` if it is B (Dong, Roth and Su 2022).
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
# The game, played on a real bundle
# ---------------------------------
#
# The table below has one column with the bounds 0 and 1. For each of its 40,000 rows a coin decided whether the value
# is 0 (candidate A) or 1 (candidate B): no two candidates within the bounds are further apart. We publish it with
# ``mu = 1`` and let the attacker loose on what was published. (Keys and ledger of this page live in a temporary
# folder.)

os.environ["DPGRAPH_HOME"] = folder = tempfile.mkdtemp()
rng = np.random.default_rng(1)
coins = rng.integers(0, 2, 40_000)
privacy = {"unit": "row", "mu": 1.0}
policy = Policy.model_validate(
    {"dataset": {"name": "coins"}, "privacy": privacy, "columns": {"value": {"bounds": [0.0, 1.0]}}}
)
table = pd.DataFrame({"value": coins.astype(float)})
receipt = publish(table, policy, out=f"{folder}/coins.bundle.tar", key=load_key())

with open_bundle(f"{folder}/coins.bundle.tar") as bundle:
    published = np.concatenate([batch["value"].to_numpy() for batch in bundle.batches()])
    sigma = bundle.release.columns[0].noise.sigma

# %%
# The bounds are 1 apart and the noise has a standard deviation of 1, so the published values follow the two laws of the
# definition. The best test there is (Neyman and Pearson) says "B" wherever B's law is higher, here above 1/2. It errs
# in the hatched areas.

mu = 1.0
guesses = published > 0.5
right = np.mean(guesses == coins)

# sphinx_gallery_start_ignore
figure, axes = plt.subplots()
grid = np.linspace(-3.5, 4.5, 400)
for candidate, place, colour in (("A", 0.0, "C0"), ("B", mu, "C1")):
    values = published[coins == int(place)]
    axes.hist(values, bins=80, range=(-3.5, 4.5), density=True, alpha=0.25, color=colour)
    label = f"the row is {candidate}: N({place:g}, 1)"
    axes.plot(grid, norm.pdf(grid, place), color=colour, ls="-" if candidate == "A" else "--", label=label)
wrong_a, wrong_b = grid[grid >= mu / 2], grid[grid <= mu / 2]
axes.fill_between(wrong_a, norm.pdf(wrong_a), hatch="//", facecolor="none", edgecolor="C0", lw=0)
axes.fill_between(wrong_b, norm.pdf(wrong_b, mu), hatch="\\\\", facecolor="none", edgecolor="C1", lw=0)
axes.axvline(mu / 2, color="black", lw=1)
axes.annotate("guess A", (mu / 2, 0.43), xytext=(-6, 0), textcoords="offset points", ha="right")
axes.annotate("guess B", (mu / 2, 0.43), xytext=(6, 0), textcoords="offset points")
axes.set(xlabel="published value", ylabel="density", ylim=(0, 0.46), xlim=(-3.5, 4.5))
axes.set_title(f"mu = 1: published values overlap so much that {right:.1%} of the guesses are right")
axes.legend(loc="upper right")
plt.show()
# sphinx_gallery_end_ignore

# %%
# The share of right guesses is :math:`\Phi(\mu / 2)`, where pure guessing has 50 %:

print(f"measured on the bundle: {right:.1%} of {len(coins):,} guesses were right; sigma = {sigma:g}")
for each in (0.1, 0.5, 1.0, 2.0, 3.0, 5.0):
    print(f"mu = {each:<4g} right at most {percent_at_most(norm.cdf(each / 2))} of the time")

# %%
# From prior to posterior
# -----------------------
#
# An attacker often has an opinion beforehand: that the row is B with probability :math:`\pi`, say. Having seen the
# number z, they multiply the odds :math:`\pi / (1 - \pi)` by the likelihood ratio :math:`e^{\mu z - \mu^2 / 2}`. As z
# is random, so is what they believe afterwards. The bands show where that lies in nine of ten releases if the row is
# indeed B, the least favourable case for you.

prior = np.linspace(0.001, 0.999, 400)


def posterior(prior, mu, chance):
    """Return the quantile of what is believed of B after the release, where B is true."""
    odds = prior / (1 - prior) * np.exp(mu * norm.ppf(chance) + mu**2 / 2)
    return odds / (1 + odds)


# sphinx_gallery_start_ignore
figure, panels = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True)
for axes, each in zip(panels, (0.5, 1.0, 3.0), strict=True):
    axes.fill_between(prior, posterior(prior, each, 0.05), posterior(prior, each, 0.95), alpha=0.3, label="9 in 10")
    axes.plot(prior, posterior(prior, each, 0.5), label="median")
    axes.plot([0, 1], [0, 1], color="black", lw=1, ls=":", label="nothing learned")
    axes.set_title(f"mu = {each:g}: {'little' if each < 1 else 'something' if each < 3 else 'much'} is learned")
    axes.set(xlabel="believed before the release", xlim=(0, 1), ylim=(0, 1))
panels[0].set_ylabel("believed after it")
panels[0].legend(loc="lower right")
plt.show()
# sphinx_gallery_end_ignore

# %%
# Read off where the prior is a half, or very small:

for each in (0.5, 1.0, 3.0):
    even, rare = posterior(0.5, each, 0.5), posterior(0.001, each, 0.95)
    print(f"mu = {each:<4g} 50 % becomes {even:.0%} (median); 0.1 % becomes at most {rare:.1%} in 19 of 20 releases")

# %%
# From mu to epsilon and delta, and back
# --------------------------------------
#
# Many rules ask for a pair :math:`(\varepsilon, \delta)` instead. A ``mu`` is not one such pair but a whole curve of
# them (Balle and Wang 2018):
#
# .. math:: \delta(\varepsilon) = \Phi\left(-\tfrac{\varepsilon}{\mu} + \tfrac{\mu}{2}\right)
#           - e^{\varepsilon} \Phi\left(-\tfrac{\varepsilon}{\mu} - \tfrac{\mu}{2}\right)
#
# The bundle states five points of it, and a reader checks them. They are the dots.


def delta_of(mu, epsilon):
    """Return delta of a mu at an epsilon."""
    return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))


def epsilon_of(mu, delta):
    """Return the smallest epsilon of a mu at a delta."""
    return brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, 500.0)


stated = receipt.release.guarantee.epsilon_delta
# sphinx_gallery_start_ignore
figure, (left, right_panel) = plt.subplots(1, 2, figsize=(9, 3.8))
epsilons = np.linspace(0.01, 16, 400)
for each, style, colour in ((0.5, ":", "C2"), (1.0, "-", "C0"), (2.0, "--", "C1")):
    left.semilogy(epsilons, delta_of(each, epsilons), ls=style, color=colour, label=f"mu = {each:g}")
left.plot(
    [point.epsilon for point in stated], [point.delta for point in stated], "o", color="C0", label="in the bundle"
)
left.set(xlabel="epsilon", ylabel="delta", ylim=(1e-12, 1), xlim=(0, 16))
left.set_title("Each mu is a curve of (epsilon, delta)")
left.legend()
mus = np.linspace(0.1, 5, 100)
for delta, style, colour in ((1e-4, ":", "C2"), (1e-6, "-", "C0"), (1e-10, "--", "C1")):
    right_panel.plot(mus, [epsilon_of(mu, delta) for mu in mus], ls=style, color=colour, label=f"delta = {delta:g}")
right_panel.set(xlabel="mu", ylabel="epsilon", xlim=(0, 5), ylim=(0, None))
right_panel.set_title("One mu, three epsilons")
right_panel.legend()
plt.show()
# sphinx_gallery_end_ignore

# %%
# The way back: a policy may give ``epsilon`` and ``delta``. Then ``dp-publish`` takes the largest ``mu`` whose curve
# does not rise above that point.

point = {"unit": "row", "epsilon": 3.0, "delta": 1e-6}
by_epsilon = policy.model_copy(update={"privacy": type(policy.privacy).model_validate(point)})
second = publish(table, by_epsilon, out=f"{folder}/second.bundle.tar", key=load_key())
found = second.release.guarantee.mu
print(f"epsilon = 3 at delta = 1e-06 is mu = {found:.4g}; and back: epsilon = {epsilon_of(found, 1e-6):.4g}")

# %%
# Which of the two numbers should you think in? ``mu`` adds up simply over releases (:ref:`trade-off curves
# <sphx_glr_explained_plot_2_trade_off.py>`) and says what an attacker can do at every level of caution. A single pair
# says it at one level. How to choose a value: :doc:`/how-to/choose-a-strength`.
#
# References
# ----------
#
# - J. Dong, A. Roth and W. Su (2022), Gaussian differential privacy, *Journal of the Royal Statistical Society B*
#   84(1).
# - B. Balle and Y.-X. Wang (2018), Improving the Gaussian mechanism for differential privacy, arXiv 1805.06530.
