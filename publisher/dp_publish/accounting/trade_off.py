"""Trade-off functions: what a guarantee leaves to somebody who wants to tell two neighbouring tables apart.

Whoever tests "it was table P" against "it was table Q" errs in two ways. He rejects P though it is true (type I, with
probability alpha), or accepts it though it is not (type II). A guarantee says that type II is at least f(alpha), which
everything else here follows from:

* mu-GDP is f(alpha) = Phi(Phi^-1(1 - alpha) - mu);
* (epsilon, delta) is f(alpha) = max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)), and several such
  points, of a curve that was computed numerically, give the largest of these: exact with all points of the curve, and
  with some of them less than the truth, never more.

**Guesses.** Of two neighbours that are equally likely the better guess is right with probability 1 - min (alpha +
f(alpha)) / 2. Of k candidates that are all neighbours of one table, each as likely as any other, it is right with
probability at most 1 - f(1/k). Under the one table it names candidate i with probability a_i, under candidate i with 1
- f(a_i) at most. The a_i add up to 1, and f is convex. The same holds where the likeliest candidate has probability
1/k. Candidates that are neighbours of each other are guessed no better than two of them. Whoever is told all wrong ones
but one is not hindered by it.

**Belief.** Let f(a) = 1 - s and K = s / a. Then an outcome may be more than K times as likely under Q as under P. Such
a one comes with a probability of at most s under Q. Had the set of such outcomes a probability p > s under Q, it would
have less than p / K under P. But a test with power p takes at least p / K, as (1 - f(a)) / a falls in a. So the odds in
favour of the truth rise by more than K in at most a share s of releases.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2 and proposition 2.12. Wasserman & Zhou
(2010), JASA 105(489), for (epsilon, delta). Hayes, Mahloujifar & Balle (2023), arXiv 2302.07225, for k candidates.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special


class TradeOff(ABC):
    """The smallest type II error at each type I error."""

    @abstractmethod
    def type_2(self, alpha: float) -> float:
        """Return f(alpha), for alpha in [0, 1]."""

    @property
    @abstractmethod
    def right_of_two(self) -> float:
        """The probability of a right guess between two neighbours that are equally likely."""

    def power(self, alpha: float) -> float:
        """Return the largest probability of detection at a probability alpha of false alarm."""
        return 1.0 - self.type_2(alpha)

    def right_among(self, candidates: int, *, neighbours: bool = True) -> float:
        """Return a bound on the probability of a right guess among so many equally likely candidates.

        Parameters
        ----------
        candidates : int
            How many there are, at least 2; all are neighbours of one table.
        neighbours : bool
            Whether they are neighbours of each other as well.
        """
        bound = self.power(1.0 / candidates)
        return min(bound, self.right_of_two) if neighbours else bound

    @abstractmethod
    def odds_factor(self, share: float) -> float:
        """Return what nobody's odds in favour of the truth are multiplied by more than, but for this share of releases.

        Parameters
        ----------
        share : float
            The probability of exceptions, in (0, 1).

        Returns
        -------
        float
            Infinite where events of that probability may prove something beyond doubt.
        """


@dataclass(frozen=True)
class GaussianTradeOff(TradeOff):
    """The trade-off function of mu-GDP."""

    mu: float

    def type_2(self, alpha: float) -> float:
        """Return Phi(Phi^-1(1 - alpha) - mu)."""
        return float(special.ndtr(-special.ndtri(alpha) - self.mu))

    @property
    def right_of_two(self) -> float:
        """Phi(mu / 2)."""
        return float(special.ndtr(self.mu / 2))

    def odds_factor(self, share: float) -> float:
        """Return share / Phi(Phi^-1(share) - mu)."""
        return _exp(math.log(share) - float(special.log_ndtr(special.ndtri(share) - self.mu)))


@dataclass(frozen=True)
class EnvelopeTradeOff(TradeOff):
    """The trade-off function of (epsilon, delta) points that all hold.

    Attributes
    ----------
    points : sequence of (float, float)
        Pairs of epsilon >= 0 and delta in [0, 1].
    """

    points: Sequence[tuple[float, float]]

    def type_2(self, alpha: float) -> float:
        """Return the largest of the bounds by each point."""
        steep = max(1.0 - delta - _exp(epsilon) * alpha for epsilon, delta in self.points)
        flat = max(math.exp(-epsilon) * (1.0 - delta - alpha) for epsilon, delta in self.points)
        return max(0.0, steep, flat)

    @property
    def right_of_two(self) -> float:
        """The least that any one point allows: (1 + delta + (1 - delta) tanh(epsilon / 2)) / 2."""
        return min(0.5 * (1.0 + delta + (1.0 - delta) * math.tanh(epsilon / 2)) for epsilon, delta in self.points)

    def odds_factor(self, share: float) -> float:
        """Return share / a with f(a) = 1 - share; a is the largest that any one line of the envelope takes."""
        steep = max((share - delta) * math.exp(-epsilon) for epsilon, delta in self.points)
        flat = max(1.0 - delta - (1.0 - share) * _exp(epsilon) for epsilon, delta in self.points)
        alpha = max(steep, flat)
        return share / alpha if alpha > 0.0 else math.inf


def trade_off_epsilons(mu: float) -> list[float]:
    """Return the epsilons of a curve that has about this mu, among them 0, at which its points tell most.

    They are those of the tangents to the trade-off function of mu-GDP from alpha = 1/2 to below 1e-9.
    """
    tangents = (mu * (0.125 * step) - mu * mu / 2 for step in range(56))
    return [0.0, *(epsilon for epsilon in tangents if epsilon > 0.0)]


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.inf
