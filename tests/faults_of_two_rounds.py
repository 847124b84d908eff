"""Faults of a release in two rounds, each planted in one of its steps."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dp_publish.covariance.mechanisms import two_round
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.two_rounds import rows, shares, steps, sums
from dp_publish.sampling import places
from dp_publish.sampling.keystream import insecure_keystream
from planting import Plant, instead_of

__all__ = ["FAULTS_OF_TWO_ROUNDS", "for_nothing"]


def _limit_scores_doubled(patch: pytest.MonkeyPatch) -> None:
    honest = shares.RadiusSearch.scores
    patch.setattr(shares.RadiusSearch, "scores", lambda self, exceeding: 2 * np.asarray(honest(self, exceeding)))


def _radii_scored_on_both_sides(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shares.RadiusSearch, "scores", lambda self, exceeding: np.abs(exceeding - self.target))


@instead_of("_play_round", two_round.TwoRound)
def _radius_of_the_data(honest: Any, self: Any, name: str, binned: Any, *rest: Any) -> Any:
    *others, play = rest
    longest = int(np.argmax(binned.counts_outside() == 0))

    def fixed(step: Any, statistic: Any) -> Any:
        return longest if step.name.endswith("radius") and play(step, statistic) >= 0 else play(step, statistic)

    return honest(self, name, binned, *others, fixed)


def _scales_floored_by_ties(patch: pytest.MonkeyPatch) -> None:
    honest_scores, honest_radii = places.center_scores, places.ScaleSearch.radii
    used: list[np.ndarray] = []

    def center_scores(counts: np.ndarray) -> np.ndarray:
        used[:] = [np.flatnonzero(counts)]
        return honest_scores(counts)

    def radii(self: Any, center: int) -> np.ndarray:
        others = used[0][used[0] != center]
        nearest = (self.grid.widest / self.grid.cells) * float(np.abs(others - center).min(initial=self.grid.cells))
        return np.minimum(np.maximum(honest_radii(self, center), nearest), self.grid.widest)

    patch.setattr(places, "center_scores", center_scores)
    patch.setattr(places.ScaleSearch, "radii", radii)


def _rank_moves_by_two(patch: pytest.MonkeyPatch) -> None:
    def scores(counts: np.ndarray) -> np.ndarray:
        up_to = np.cumsum(counts)
        below, above = up_to - counts, up_to[-1] - up_to
        return np.asarray(np.abs(below - above))

    patch.setattr(places, "center_scores", scores)


def _sensitivity_times(factor: float, *names: str) -> Plant:
    """Return the plant of a sensitivity, with the noise that it is the measure of, in some rounds."""

    class Smaller(Gaussian):
        @property
        def sensitivity(self) -> float:
            return factor * super().sensitivity

    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = two_round.TwoRound._play_round

        def play_round(self: Any, name: str, *rest: Any) -> Any:
            two_round.Gaussian = Smaller if name in names else Gaussian  # type: ignore[misc, assignment]
            return honest(self, name, *rest)

        patch.setattr(two_round, "Gaussian", Gaussian)
        patch.setattr(two_round.TwoRound, "_play_round", play_round)

    return plant


def _lengths_halved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps.NoisyLengths, "sensitivity", property(lambda step: (2.0**step.bits + 1) / 2))


def _less_noise_on_sums(name: str) -> Plant:
    @instead_of("draw", two_round.NoisySums)
    def plant(honest: Any, self: Any, statistic: Any, rng: Any) -> Any:
        noisy = honest(self, statistic, rng)
        if not self.name.startswith(name):
            return noisy
        grid = self.gaussian.sigma_and_grid()[1]
        exact = grid.round(statistic.steps).astype(np.float64)
        noise = np.rint(0.9 * (noisy.matrix / grid.step - exact))
        return replace(noisy, matrix=(exact + noise) * grid.step)

    return plant


def _less_noise_on_lengths(patch: pytest.MonkeyPatch) -> None:
    honest = steps.sample_rounded_gaussian
    patch.setattr(steps, "sample_rounded_gaussian", lambda sigma, *rest: honest(0.9 * sigma, *rest))


def _less_noise_on_choices(*names: str) -> Plant:
    @instead_of("draw", steps.Choice)
    def plant(honest: Any, self: Any, statistic: Any, rng: Any) -> int:
        if not self.name.startswith(names):
            return honest(self, statistic, rng)
        return replace(self.mechanism, mu=self.mu / 0.9).choose(statistic, rng)

    return plant


def _clipped_after_the_radius(patch: pytest.MonkeyPatch) -> None:
    honest = sums.cut_to_integers

    def add(self: Any, values: np.ndarray, frame: rows.RoundMap) -> None:
        p = len(frame.centers)
        transform = np.eye(p) if frame.transform is None else frame.transform
        inverse = np.linalg.inv(transform)
        far = 1e6 * frame.half_widths
        unclipped = replace(frame, low=frame.centers - far, high=frame.centers + far)

        def clip(placed: np.ndarray, unit: float) -> np.ndarray:
            back = frame.centers + placed / unit @ inverse * frame.half_widths
            standard = (np.clip(back, frame.low, frame.high) - frame.centers) / frame.half_widths
            return np.trunc(standard @ transform * unit)

        def cut(placed: np.ndarray, radii: np.ndarray) -> rows.Placed:
            cut = honest(placed, radii)
            return replace(cut, inside=clip(cut.inside, rows.INSIDE), directions=clip(cut.directions, rows.DIRECTION))

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(sums, "cut_to_integers", cut)
            self._add_wide(unclipped.place(values))

    patch.setattr(sums.BinnedSums, "add", add)


def _rounds_share_random_bits(patch: pytest.MonkeyPatch) -> None:
    honest_choice, honest_sums, streams = steps.Choice.draw, two_round.NoisySums.draw, {}

    def bits(name: str, rng: Any) -> Any:
        if name == "first radius":
            seed = np.zeros(1, dtype=np.uint32)
            rng.fill(seed)
            streams["seed"] = int(seed[0])
        if name in ("first radius", "second radius"):
            streams["rng"] = insecure_keystream(streams["seed"])
        return streams["rng"] if name.startswith(("first", "second")) else rng

    def choose(self: Any, statistic: Any, rng: Any) -> int:
        return honest_choice(self, statistic, bits(self.name, rng))

    def draw(self: Any, statistic: Any, rng: Any) -> Any:
        return honest_sums(self, statistic, bits(self.name, rng))

    patch.setattr(steps.Choice, "draw", choose)
    patch.setattr(two_round.NoisySums, "draw", draw)


def for_nothing(*paid: str) -> Plant:
    """Return the plant of shares that come to all of mu by these alone, as if the others cost nothing."""

    @instead_of("share_out", two_round)
    def plant(honest: Any, mu: float, *rest: int, **named: bool) -> Any:
        shares = honest(mu, *rest, **named)
        more = mu / math.hypot(*(getattr(shares, name) for name in paid))
        return replace(shares, **{name: more * getattr(shares, name) for name in ("lengths", "first", "second")})

    return plant


def _entity_cap_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(two_round.TwoRound, "row_mu", property(lambda self: self.strength.mu))


FAULTS_OF_TWO_ROUNDS: dict[str, Plant] = {
    "a row moves the scores of radii by two": _limit_scores_doubled,
    "radii are scored on both sides of the target": _radii_scored_on_both_sides,
    "the radius is read off the data": _radius_of_the_data,
    "a scale is floored by what is nearest to true ties": _scales_floored_by_ties,
    "a value moves its rank among the others by two": _rank_moves_by_two,
    "the first round has half its sensitivity": _sensitivity_times(0.5, "first"),
    "the second round has half its sensitivity": _sensitivity_times(0.5, "second"),
    "the lengths have half their sensitivity": _lengths_halved,
    "both rounds have the sensitivity of added rows": _sensitivity_times(math.sqrt(0.5), "first", "second"),
    "the first round has 0.9 of its noise": _less_noise_on_sums("first"),
    "the second round has 0.9 of its noise": _less_noise_on_sums("second"),
    "the lengths have 0.9 of their noise": _less_noise_on_lengths,
    "centers are chosen with 0.9 of their noise": _less_noise_on_choices("center"),
    "scales are chosen with 0.9 of their noise": _less_noise_on_choices("scale"),
    "radii are chosen with 0.9 of their noise": _less_noise_on_choices("first radius", "second radius"),
    "rows are clipped after they are shortened": _clipped_after_the_radius,
    "both rounds draw the same random bits": _rounds_share_random_bits,
    "what is chosen privately costs nothing": for_nothing("lengths", "first", "second"),
    "two rounds ignore the entity cap": _entity_cap_ignored,
}
