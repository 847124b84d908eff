"""One claim against what the release, or several of them together, really loses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from tests.statistical.real_law import NOTHING, Law, choice, gaussian
from tests.statistical.real_release import Alternatives, Drawn, real_laws, worst_of
from tests.statistical.stated_figures import Claim, UnknownFigureError

from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.release import Release
from dp_publish import Policy, Receipt

_LEAST = 1e-300
_NUMERICAL = 1e-13  # of a delta, which adds up differences of probabilities
Found = tuple[float, float]  # how many times as large as it is stated a figure really is, and the figure


@dataclass
class Judged:
    """One release, what was drawn for it, and what it really loses, by unit; `sharper` as for `real_laws`."""

    receipt: Receipt
    policy: Policy
    sections: dict[str, Any]
    drawn: Drawn
    sharper: float = 1.0
    _laws: dict[tuple[str, int, bool], Alternatives] = field(default_factory=dict)

    @property
    def release(self) -> Release:
        """What was published."""
        return self.receipt.release

    @property
    def guarantee(self) -> Guarantee | None:
        """What it promises."""
        return self.release.guarantee

    @property
    def unit(self) -> str:
        """Its own unit."""
        return "cell" if self.guarantee is None else self.guarantee.unit

    @property
    def excepted(self) -> float:
        """The probability that the guarantee excepts, which is not counted against it."""
        return 0.0 if self.guarantee is None else self.guarantee.excepted_delta

    def laws(self, unit: str, rows: int = 1, *, replaced: bool = False) -> Alternatives:
        """Return the alternatives of one unit, of so many of them together."""
        if unit.startswith("entity"):
            unit, rows = "row", rows * ((self.guarantee.max_rows or 1) if self.guarantee else 1)
        if unit == "change" and self.unit != "change":  # a change is at most a cell, where it was not the unit
            unit = "cell"
        place = (unit, rows, replaced)
        if place not in self._laws:
            self._laws[place] = real_laws(
                self.release, self.drawn, unit, rows=rows, replaced=replaced, sharper=self.sharper
            )
        return self._laws[place]

    def real_excepted(self, unit: str, rows: int = 1, *, replaced: bool = False) -> float:
        """Return with which probability the epsilon of so many units does not hold."""
        if self.guarantee is None or self.guarantee.epsilon is None:
            return 0.0
        steps = rows * (self.guarantee.neighbours.per_replacement if replaced else 1)
        worst = worst_of(self.laws(unit, rows, replaced=replaced))
        return max(0.0, worst.delta(steps * self.guarantee.epsilon * (1 + 1e-12)) - _NUMERICAL)


@dataclass(frozen=True)
class Finding:
    """A claim, and how much larger than it the real figure is."""

    ratio: float
    claim: Claim
    real: float
    sections: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.ratio:.9g} times: {self.claim} is really {self.real:.10g}, of {self.sections}"


class Judge:
    """Judges the claims about one release, after others of the same dataset; equal claims once."""

    def __init__(self, judged: Judged, before: Sequence[Judged]) -> None:
        self._judged, self._all = judged, [*before, judged]
        self._before = list(before)
        self._found: dict[tuple[str, float, str, float], Found] = {}
        self._together: dict[tuple[str, str], Alternatives] = {}

    def __call__(self, claim: Claim) -> Finding:
        """Return what is found."""
        known = (claim.kind, claim.value, claim.scope, claim.delta)
        if known not in self._found:
            self._found[known] = self._judge(claim)
        return Finding(*self._found[known][:1], claim, self._found[known][1], self._judged.sections)

    def _judge(self, claim: Claim) -> Found:
        judged, (scope, _, rest) = self._judged, claim.scope.partition(" ")
        unit = judged.unit
        if claim.kind in ("bounds_mu", "discovery_mu"):
            return _part(claim, judged)
        if scope in ("all", "before", "booked"):
            return self._of_several(claim, scope, rest or judged.release.cumulative.unit)
        if claim.kind == "excepted":
            real = judged.real_excepted(unit, int(rest) if scope == "rows" else 1)
            return real / max(claim.value, _LEAST), real
        if claim.kind == "times":
            return math.sqrt(float(rest)) / claim.value, math.sqrt(float(rest))
        if claim.kind == "replacement":
            one, both = judged.laws(unit), judged.laws(unit, replaced=True)
            mus = worst_of(one).mu(), worst_of(both).mu()
            times = mus[1] / max(mus[0], _LEAST) if math.isfinite(mus[1]) else 1.0  # what is unbounded stays so
            return times / claim.value, times
        if scope == "own":
            return ratio_of(claim, judged.laws(unit, replaced=rest == "replaced"), judged.excepted)
        if scope == "cell":
            return ratio_of(claim, judged.laws("cell"), 0.0)
        if scope == "rows":
            return ratio_of(claim, judged.laws(unit, int(rest)), claim.delta or judged.excepted)
        if scope == "mu":
            return ratio_of(claim, {"*": gaussian(float(rest))}, 0.0)
        raise UnknownFigureError(claim)

    def _of_several(self, claim: Claim, scope: str, unit: str) -> Found:
        releases = {"all": self._all, "before": self._before, "booked": [self._judged]}[scope]
        if claim.kind == "excepted":
            real = math.fsum(each.real_excepted(unit, replaced=True) for each in releases)
            return real / max(claim.value, _LEAST), real
        place = (unit, scope)
        if place not in self._together:
            self._together[place] = together(releases, unit)
        return ratio_of(claim, self._together[place], math.fsum(each.excepted for each in releases))


def ratio_of(claim: Claim, laws: Alternatives, excepted: float) -> Found:
    """Return the larger of the ratios of all alternatives."""
    return max(_ratio(claim, law, excepted) for law in laws.values())


def _ratio(claim: Claim, law: Law, excepted: float) -> Found:
    value = claim.value
    if law.is_far and not (claim.kind == "rho" and math.isfinite(law.rho)):
        return 0.0, math.nan  # not judged
    if claim.kind in ("mu", "rho", "epsilon", "point"):
        real = _strength(claim, law, excepted)
        return (real / value if value else (math.inf if real else 0.0)), real
    if claim.kind == "right":
        return (1 - value) * (1 - 1e-12) / max(law.wrong + 1e-15, _LEAST), 1 - law.wrong
    if claim.kind == "odds":  # for a share `delta` of releases, odds may rise by more than this factor
        real = law.beyond(math.log(value))
        return real / claim.delta, real
    power = law.power_at(claim.delta)  # at so many false alarms
    if claim.kind == "power":
        return (1 - value) / max(1 - power, 1e-12), power
    if claim.kind == "miss":
        return value / max(1 - power, 1e-12), 1 - power
    if claim.kind == "among":  # as many equally likely candidates as 1 / delta
        real = min(power, 1 - law.wrong)
        return (1 - value) / max(1 - real, 1e-12), real
    raise UnknownFigureError(claim)


def _strength(claim: Claim, law: Law, excepted: float) -> float:
    if claim.kind == "mu":
        return law.mu(excepted)
    if claim.kind == "rho":
        return 0.0 if excepted else law.rho
    if claim.kind == "epsilon":
        return law.epsilon(excepted) if excepted else law.largest_ratio
    delta = law.delta(claim.value)
    return claim.value * delta / claim.delta if delta <= claim.delta else law.epsilon(claim.delta)


def _part(claim: Claim, judged: Judged) -> Found:
    """Return what was spent on the bounds."""
    drawn = judged.drawn
    if not claim.value:
        return 0.0, 0.0
    if claim.kind == "discovery_mu":  # the policies here declare what their columns are
        raise UnknownFigureError(claim)
    rows = (judged.guarantee.max_rows or 1) if judged.guarantee else 1
    choices = drawn.choices[:2] if judged.unit == "cell" else drawn.choices
    real = reduce(Law.times, (choice(rows * each) for each in choices), NOTHING).mu()
    return real / claim.value, real


def together(releases: Sequence[Judged], unit: str) -> Alternatives:
    """Return the alternatives of one unit in several releases: of those of a part of the rows, one part's."""
    parts = {each.release.lineage.partition for each in releases} - {None}
    laws: Alternatives = {}
    for part in parts or {None}:
        seen = [each for each in releases if each.release.lineage.partition in (None, part)]
        seen = list(releases) if unit.startswith("entity") else seen
        alternatives = [each.laws(unit, replaced=True) for each in seen]
        for name in {name for each in alternatives for name in each}:
            found = (each.get(name) or each.get("*") or NOTHING for each in alternatives)
            laws[f"{part} {name}"] = reduce(Law.times, found, NOTHING)
    return laws or {"*": NOTHING}
