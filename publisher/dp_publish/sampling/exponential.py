"""The exponential mechanism on integer scores, exactly: between the scores and the choice nothing is a float.

Outcome o has a score s(o) >= 0, smaller being better, which moves by at most 1 between neighbouring tables. It is
chosen with a probability in proportion to W(s(o) - min s). Here W(0) = 2^128 and W(k + 1) = ceil(b W(k)) for a fraction
b <= 1: b^k, but for rounding up.

**Bounded range.** b W(k) <= W(k + 1) <= W(k) holds of the integers themselves. On a neighbouring table the scores move
by e(o) in {-1, 0, 1}, and their minimum by some d in {-1, 0, 1}. If d = 0, the weights move by factors in [b, 1/b]. If
d = 1, scores above the minimum move by -2 to 0, and weights by factors in [1, b^-2]. If d = -1, they move by factors in
[b^2, 1]. The weights' sum moves all log-probabilities alike. So the log-ratio of the two probabilities varies over the
outcomes by at most eps = -2 ln b: the mechanism has the range eps. For m moved rows that is m eps.

**One-sided scores** all rise by 0 or 1, or all fall. They are the numbers of values beyond limits if one value is
replaced, and what grows with these. If they rise, d is 0 and weights move by factors in [b, 1], or d is 1 and they move
by factors in [1, 1/b]. If they fall, it is the other way round. So the range is eps = -ln b, half as large, and with
the same eps b is the square of what it is otherwise.

**mu.** Let P and Q be its laws on two neighbouring tables, and S any event. As P(S) / Q(S) is at most the largest
ratio, and P(not S) / Q(not S) at least the smallest, logit P(S) <= logit Q(S) + eps. The trade-off between both errors
is at worst that of two outcomes whose logits differ by eps. That is no worse than mu-GDP's if Phi^-1(p) - Phi^-1(q) <=
mu for all logit(p) - logit(q) = eps. The slope p (1 - p) / phi(Phi^-1(p)) of a probit on its logit falls with |p -
1/2|. So the difference is largest for p = 1 - q = e^(eps/2) / (1 + e^(eps/2)). Then mu = 2 Phi^-1(p), which is about
0.627 eps: what (eps/2)-DP implies, half of what eps-DP does.

References
----------
McSherry & Talwar (2007), Mechanism design via differential privacy, FOCS. Dong, Durfee & Rogers (2020), Optimal
differential privacy composition for exponential mechanisms, arXiv 1909.13830, section 3. Dong, Roth & Su (2022).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.manifest.noise import epsilon_for_implied_mu, mu_implied_by_epsilon
from dp_publish.sampling.keystream import Keystream, uniform_bits

_FRACTION_BITS = 40  # of b
_WEIGHT_BITS = 128  # of the best outcome's weight
_RANDOM_BITS = 256  # of one choice
_ROUNDING = 2.0**-10  # far above the float error in 2^40 b


@dataclass(frozen=True)
class ExponentialMechanism:
    """A choice of one of finitely many outcomes, by scores of sensitivity 1.

    Parameters
    ----------
    mu : float
        What one choice may cost a row.
    one_sided : bool
        Whether scores are, so that they may count twice as much.
    """

    mu: float
    one_sided: bool = False

    @property
    def rate(self) -> float:
        """How much the log-probability of an outcome falls with its score: -ln b."""
        return math.log1p(((1 << _FRACTION_BITS) - self._numerator) / self._numerator)

    @property
    def epsilon(self) -> float:
        """The range of the log-ratio of an outcome's probabilities on neighbouring tables: -2 ln b, or half of that."""
        return self.rate if self.one_sided else 2 * self.rate

    @property
    def cost(self) -> float:
        """The mu of one choice, computed from the fraction b in use: at most, and nearly, the `mu` that it may be."""
        return mu_implied_by_epsilon(self.epsilon / 2)

    def choose(self, scores: Integers, rng: Keystream) -> int:
        """Return the index of an outcome.

        Rejecting a number takes random bits, but so seldom (once in 2^100 times) that their number says nothing.

        Parameters
        ----------
        scores : ndarray of int64, shape (n_outcomes,)
            Smaller is better; at most 2^28 of them.
        rng : Keystream
            Where the random bits come from.
        """
        excess, weights, occurring, masses = self._masses(scores)
        place, group = _uniform_below(sum(masses), rng), 0
        while place >= masses[group]:
            place -= masses[group]
            group += 1
        score = occurring[group]
        return int(np.flatnonzero(excess == score)[place // weights[score]])

    def log_probabilities(self, scores: Integers) -> Floats:
        """Return the log-probability of every outcome: the exact law of `choose`, rounded to float64."""
        excess, weights, _, masses = self._masses(scores)
        probabilities: Floats = np.log(np.array(weights, dtype=np.float64))[excess] - math.log(sum(masses))
        return probabilities

    def _masses(self, scores: Integers) -> tuple[Integers, tuple[int, ...], list[int], list[int]]:
        """Return scores above the least, weights by these, those that occur, and the weight of all that have each."""
        excess = scores - scores.min()
        weights = self.weights(int(excess.max()) + 1)
        np.minimum(excess, len(weights) - 1, out=excess)
        numbers = np.bincount(excess)
        occurring = np.flatnonzero(numbers).tolist()
        return excess, weights, occurring, [int(numbers[score]) * weights[score] for score in occurring]

    def weights(self, n_scores: int) -> tuple[int, ...]:
        """Return W(0), W(1), ... for so many scores, or up to the first that all further ones are equal to."""
        return _weights(self._numerator, 1 << (n_scores - 1).bit_length())[:n_scores]

    @property
    def _numerator(self) -> int:
        """2^40 b, rounded up, so that the cost is never above mu."""
        fraction = math.exp(-(1 + self.one_sided) * epsilon_for_implied_mu(self.mu))
        return min(math.floor(math.ldexp(fraction, _FRACTION_BITS) + _ROUNDING) + 1, 1 << _FRACTION_BITS)


@lru_cache(maxsize=8)
def _weights(numerator: int, n_scores: int) -> tuple[int, ...]:
    weights = [1 << _WEIGHT_BITS]
    while len(weights) < n_scores:
        following = -((-weights[-1] * numerator) >> _FRACTION_BITS)
        if following == weights[-1]:
            break
        weights.append(following)
    return tuple(weights)


def _uniform_below(total: int, rng: Keystream) -> int:
    """Return a uniform integer below a total that is far below 2^256."""
    multiple = (1 << _RANDOM_BITS) // total * total
    while True:
        drawn = uniform_bits(_RANDOM_BITS, rng)
        if drawn < multiple:
            return drawn % total
