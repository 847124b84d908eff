"""No figure that is printed or stated promises more than the noise that was drawn keeps: 500 random policies, judged."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.statistical.random_policies import Policies
from tests.statistical.real_law import NOTHING, Law, choice, gaussian
from tests.statistical.real_release import Alternatives, Drawn, real_laws, require_as_stated, watched, worst_of
from tests.statistical.stated_figures import Claim, UnknownFigureError, read_numbers, read_text
from tests.statistical.stated_places import claims_of, claims_of_ledger

from dp_bundle.errors import DpGraphError
from dp_bundle.manifest import Release
from dp_publish import Policy, Receipt, publish
from dp_publish.ledger import open_ledger

_ROUNDING = 1 + 1e-9
_LEAST = 1e-300


@dataclass
class Judged:
    """One release, what was drawn for it, and what it really loses, by unit."""

    receipt: Receipt
    policy: Policy
    sections: dict[str, Any]
    drawn: Drawn
    sharper: float = 1.0
    _laws: dict[tuple[str, int, bool], Alternatives] = field(default_factory=dict)

    def laws(self, unit: str, rows: int = 1, *, replaced: bool = False) -> Alternatives:
        """Return the alternatives of one unit, of so many of them together."""
        guarantee = self.receipt.release.guarantee
        if unit.startswith("entity"):
            unit, rows = "row", rows * ((guarantee.max_rows or 1) if guarantee else 1)
        place = (unit, rows, replaced)
        if place not in self._laws:
            self._laws[place] = real_laws(
                self.receipt.release, self.drawn, unit, rows=rows, replaced=replaced, sharper=self.sharper
            )
        return self._laws[place]

    @property
    def excepted(self) -> float:
        """The probability that the guarantee excepts, which is not counted against it."""
        guarantee = self.receipt.release.guarantee
        return guarantee.excepted_delta if guarantee is not None else 0.0


@dataclass(frozen=True)
class Finding:
    """A claim, and how much larger than it the real figure is."""

    ratio: float
    claim: Claim
    real: float
    sections: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.ratio:.6g} times: {self.claim} is really {self.real:.10g}, of {self.sections}"


def ratio_of(claim: Claim, laws: Alternatives, excepted: float) -> tuple[float, float]:
    """Return how many times as large as it is stated a figure really is, for the worst alternative; and the figure."""
    return max(_ratio(claim, law, excepted) for law in laws.values())


def _ratio(claim: Claim, law: Law, excepted: float) -> tuple[float, float]:
    value = claim.value
    if claim.kind == "mu":
        real = law.mu(excepted)
    elif claim.kind == "rho":
        real = law.rho if not excepted else 0.0
    elif claim.kind == "epsilon":
        real = law.epsilon(excepted) if excepted else _largest_ratio(law)
    elif claim.kind == "point":
        if law.delta(value) <= claim.delta:
            return (law.delta(value) / claim.delta, value)
        real = law.epsilon(claim.delta)
    elif claim.kind == "right":
        stated_wrong = 1.0 - value
        return (stated_wrong * (1 - 1e-12) - 1e-15) / max(law.wrong, _LEAST), 1.0 - law.wrong
    else:
        raise UnknownFigureError(claim)
    return (real / value if value else (math.inf if real else 0.0)), real


def _largest_ratio(law: Law) -> float:
    return float(abs(law._ratios[0])) if not law.shift else math.inf


def judge(monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, folder: Path, seed: int, number: int) -> Iterator[Judged]:
    """Publish so many random policies, and yield each release with what was drawn for it."""
    policies, published = Policies(seed), 0
    while published < number:
        planned = policies()
        with watched(monkeypatch) as drawn:
            try:
                policy = Policy.model_validate(planned.sections)
                receipt = publish(
                    planned.table, policy, out=folder / f"{published}.tar", key=key, partition=planned.partition
                )
            except DpGraphError:  # a strength that no noise gives, in one sentence
                continue
        published += 1
        yield Judged(receipt, policy, planned.sections, drawn)


def findings_of(judged: Judged, before: list[Judged]) -> Iterator[Finding]:
    """Yield every figure of a release, with what it really is."""
    release = judged.receipt.release
    require_as_stated(release, judged.drawn)
    unit = release.guarantee.unit if release.guarantee is not None else "cell"
    for claim in claims_of(judged.receipt, judged.policy):
        found = _judge(claim, judged, before, unit)
        if found is not None:
            yield Finding(*found[:1], claim, found[1], judged.sections)


def _judge(claim: Claim, judged: Judged, before: list[Judged], unit: str) -> tuple[float, float] | None:
    """Return the ratio of the real figure to the stated one, and the real one."""
    kind, _, number = claim.scope.partition(" ")
    if claim.kind in ("bounds_mu", "centers_mu"):
        return _part(claim, judged, unit)
    if claim.kind == "excepted":
        return None if kind == "all" else _excepted(claim, judged)
    if kind == "own":
        return ratio_of(claim, judged.laws(unit), judged.excepted)
    if kind == "cell":
        return ratio_of(claim, judged.laws("cell"), 0.0)
    if kind == "rows":
        return ratio_of(claim, judged.laws(unit, int(number)), judged.excepted)
    if kind == "mu":
        return ratio_of(claim, {"*": gaussian(float(number))}, 0.0)
    if claim.kind == "times":
        return math.sqrt(float(number.split(" ")[0])) / claim.value, math.sqrt(float(number))
    if claim.kind == "replacement":
        one, both = judged.laws(unit), judged.laws(unit, replaced=True)
        times = worst_of(both).mu() / max(worst_of(one).mu(), _LEAST)
        return times / claim.value, times
    if kind == "all":
        unit = number or judged.receipt.release.cumulative.unit
        releases = [*before, judged]
        return ratio_of(claim, together(releases, unit), sum(each.excepted for each in releases))
    raise UnknownFigureError(claim)


def _part(claim: Claim, judged: Judged, unit: str) -> tuple[float, float] | None:
    """Return what was spent on the bounds, or on the means."""
    release, drawn = judged.receipt.release, judged.drawn
    if not claim.value:
        return None
    rows = (release.guarantee.max_rows or 1) if release.guarantee else 1
    if claim.kind == "centers_mu":
        real = rows * 2 * math.sqrt(len(release.columns)) / drawn.sums_sigma
    else:
        choices = drawn.choices[:2] if unit == "cell" else drawn.choices
        law = NOTHING
        for each in choices:
            law = law.times(choice(rows * each))
        real = law.mu()
    return real / claim.value, real


def _excepted(claim: Claim, judged: Judged) -> tuple[float, float] | None:
    """Return the probability that is really excepted: of Wishart noise that at the stated epsilon."""
    release = judged.receipt.release
    moments, guarantee = release.second_moments, release.guarantee
    if moments is None or guarantee is None or moments.distribution != "wishart":
        return None
    rows = int(claim.scope.split(" ")[1]) if claim.scope.startswith("rows") else 1
    real = worst_of(judged.laws("row", rows)).delta(rows * (guarantee.epsilon or 0.0))
    return real / max(claim.value, _LEAST), real


def together(releases: list[Judged], unit: str) -> Alternatives:
    """Return the alternatives of one unit in several releases: of those of a part of the rows, one part's."""
    parts = {each.receipt.release.lineage.partition for each in releases} - {None}
    laws: Alternatives = {}
    for part in parts or {None}:
        seen = [each for each in releases if each.receipt.release.lineage.partition in (None, part)]
        seen = releases if unit.startswith("entity") else seen
        alternatives = [each.laws(_unit_in(each, unit), replaced=True) for each in seen]
        names = {name for each in alternatives for name in each}
        for name in names:
            law = NOTHING
            for each in alternatives:
                law = law.times(each.get(name) or each.get("*") or NOTHING)
            laws[f"{part} {name}"] = law
    return laws


def _unit_in(judged: Judged, unit: str) -> str:
    """Return what a unit is in a release: a change is at most a cell, where it was not the unit."""
    guarantee = judged.receipt.release.guarantee
    return "cell" if unit == "change" and (guarantee is None or guarantee.unit != "change") else unit


def worst_figures(monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, folder: Path, seed: int, number: int) -> list[Finding]:
    """Return the worst finding of every kind of claim and place, for so many random policies."""
    worst: dict[tuple[str, str, str], Finding] = {}
    series: dict[str, list[Judged]] = defaultdict(list)

    def note(finding: Finding) -> None:
        place = (finding.claim.kind, finding.claim.scope.split(" ")[0], finding.claim.place)
        if place not in worst or finding.ratio > worst[place].ratio:
            worst[place] = finding

    for judged in judge(monkeypatch, key, folder, seed, number):
        name = judged.receipt.release.dataset.name
        for finding in findings_of(judged, series[name]):
            note(finding)
        series[name].append(judged)

    ledger = open_ledger()
    for name, releases in series.items():
        by_number = {each.receipt.release.lineage.number: each for each in releases}
        for place, claim in claims_of_ledger(ledger, name):
            last = by_number.get(place, releases[-1])
            of = [last] if place else releases
            if claim.kind == "excepted" or (place and place not in by_number):
                continue
            unit = claim.scope.split(" ")[1]
            found = ratio_of(claim, together(of, unit), sum(each.excepted for each in of))
            note(Finding(*found[:1], claim, found[1], last.sections))
    return sorted(worst.values(), key=lambda each: -each.ratio)


def test_no_figure_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """For 25 random policies, no figure anywhere is exceeded by what it is of."""
    worst = worst_figures(monkeypatch, key, tmp_path, 3, 25)
    assert worst[0].ratio <= _ROUNDING, "\n".join(str(each) for each in worst if each.ratio > _ROUNDING)


@pytest.mark.slow
def test_no_figure_of_500_policies_is_smaller_than_the_real_one(
    monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The same for 500."""
    worst = worst_figures(monkeypatch, key, tmp_path, 4, 500)
    assert worst[0].ratio <= _ROUNDING, "\n".join(str(each) for each in worst if each.ratio > _ROUNDING)


def test_a_figure_in_unknown_words_is_an_error() -> None:
    """A new sentence, or a new field, with a figure stops the test."""
    with pytest.raises(UnknownFigureError):
        read_text("Only 3 % of attackers succeed.", "a page")
    with pytest.raises(UnknownFigureError):
        read_numbers({"mu": 1.0, "strength": 3.0}, "a manifest", "own")
    assert read_text("rho = 0.5 (zero-concentrated differential privacy).", "x") == [Claim("rho", 0.5, "own", "x")]


__all__ = ["Release"]
