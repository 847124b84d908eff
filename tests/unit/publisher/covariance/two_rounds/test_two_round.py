"""A release in two rounds, from the rows to both matrices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_bundle.base.errors import DataError, PrivacyError
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.base import Batches, NoisyMoments
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.sampling.keystream import insecure_keystream

T = TypeVar("T")
BOUNDS = (-10.0, 30.0)
MEANS, SCALES = np.array([4.0, 0.0, -2.0]), np.array([3.0, 0.1, 1.0])


class Passes:
    """Rows in batches, and how often they were read."""

    def __init__(self, values: NDArray[np.float64], batch: int = 700) -> None:
        self.values, self.batch, self.n_passes = values, batch, 0

    def __call__(self, add: Callable[[Batches], T], merge: Callable[[T, T], T]) -> T:
        """Read them once more, in two runs."""
        self.n_passes += 1
        batches = [self.values[start : start + self.batch] for start in range(0, len(self.values), self.batch)]
        half = len(batches) // 2
        return merge(add(iter(batches[half:])), add(iter(batches[:half])))


class Watch:
    """What a release tells."""

    def __init__(self) -> None:
        self.drawn, self.n_clipped = False, -1

    @staticmethod
    def once(_name: str, draw: Any) -> Any:
        """Draw."""
        return draw()

    def drawing(self) -> None:
        """Note it."""
        self.drawn = True

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:  # noqa: ARG002
        """Note them."""
        self.n_clipped = n_rows


def chain(n: int) -> NDArray[np.float64]:
    """Return rows of a chain of three columns of unequal scales."""
    rng = np.random.default_rng(6)
    correlation = 0.6 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    return MEANS + SCALES * rng.multivariate_normal(np.zeros(3), correlation, n)


def mechanism(mu: float = 1.0, *, declared: bool = False, max_rows: int = 1) -> TwoRound:
    """Return the mechanism for three columns."""
    known = zip(MEANS.tolist(), SCALES.tolist(), strict=True)
    places = [Place(*BOUNDS, *place) if declared else Place(*BOUNDS) for place in known]
    scaling = scaling_for([BOUNDS] * 3)
    return TwoRound(scaling, Neighbours.REPLACE_ONE, GaussianDP(mu), max_rows, places=tuple(places))


def release(rows: Passes, kind: TwoRound, seed: int = 1) -> tuple[NoisyMoments, Watch]:
    """Return a release, and what it told."""
    watch = Watch()
    return kind.release(rows, insecure_keystream(seed), watch), watch


def test_it_takes_three_passes() -> None:
    """The table is read three times, in batches that make no difference; the publisher is told what was shortened."""
    passes = [Passes(chain(2000), batch) for batch in (700, 37)]
    (released, watch), (other, _) = (release(rows, mechanism()) for rows in passes)
    assert [rows.n_passes for rows in passes] == [3, 3]
    assert watch.drawn
    assert 0 < watch.n_clipped < 1000
    assert (released.matrix == other.matrix).all()
    assert (released.earlier.transform == other.earlier.transform).all()
    assert released.earlier.fourth_powers == other.earlier.fourth_powers


@pytest.mark.parametrize("bounds", [(), (-1e12, 1e15), (0.0, 2.0**52)], ids=["none", "wide", "half"])
def test_a_scale_is_not_floored_by_the_width_of_bounds(bounds: tuple[float, ...]) -> None:
    """Without bounds, or within bounds a million million times too wide, scales are found all the same."""
    kind = replace(mechanism(), places=(Place(*bounds),) * 3)
    released, _ = release(Passes(np.abs(chain(20_000) + 50.0)), kind)
    scaling, clip = released.earlier.moments.scaling, released.earlier.clip
    assert scaling.centers == pytest.approx(MEANS + 50.0, abs=0.5 * SCALES.max())
    assert (clip * scaling.half_widths / SCALES > 3.0).all()  # what values are clipped to
    assert (clip * scaling.half_widths / SCALES < 30.0).all()
    assert released.earlier.declared == (False,) * 3


def test_declared_places_are_used_and_cost_nothing() -> None:
    """Declared centers and scales are taken as they are, and only radii are then chosen."""
    released, _ = release(Passes(chain(500)), mechanism(declared=True))
    assert released.earlier.moments.scaling.centers.tolist() == MEANS.tolist()
    assert released.earlier.declared == (True,) * 3
    assert released.earlier.choices_mu == pytest.approx((2 * 0.0075) ** 0.5)


def test_what_it_cannot_serve_is_refused() -> None:
    """A tiny mu, one column, a tiny unit, and a table without rows get a sentence each."""
    with pytest.raises(PrivacyError, match="mu"):
        mechanism(0.0009)
    with pytest.raises(PrivacyError, match="columns"):
        TwoRound(scaling_for([BOUNDS]), Neighbours.REPLACE_ONE, GaussianDP(1.0), places=(Place(*BOUNDS),))
    with pytest.raises(PrivacyError, match="another unit"):
        TwoRound(scaling_for([BOUNDS] * 2), Neighbours.REPLACE_ONE, GaussianDP(1.0), places=(Place(0.0, 1e-320),) * 2)
    with pytest.raises(DataError, match="no rows"):
        release(Passes(np.empty((0, 3))), mechanism())


def test_a_weak_strength_has_noise_that_can_be_drawn() -> None:
    """Lengths are cut to larger units where their noise would be too wide to draw."""
    earlier = release(Passes(chain(200)), mechanism(1e-3))[0].earlier
    assert earlier is not None
    assert earlier.fourth_sigma / earlier.fourth_step < 2**30
    assert earlier.fourth_powers % earlier.fourth_step == 0
