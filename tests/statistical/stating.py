"""Publishes random policies, reads every figure that is stated of them, and keeps the worst of each kind."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.statistical.judging import Finding, Judge, Judged
from tests.statistical.random_policies import Planned, Policies
from tests.statistical.real_release import require_as_stated, watched
from tests.statistical.stated_figures import Claim
from tests.statistical.stated_pages import claims_of_site
from tests.statistical.stated_places import claims_of, claims_of_ledger
from tests.statistical.stated_plans import claims_of_plan, plan_of

from dp_bundle.base.errors import DpGraphError
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import open_ledger
from dp_publish.ledger.restoring import restore

_PLANNED = 6  # of so many policies, one has its plan read as well


@dataclass
class Tally:
    """The worst finding of every kind of claim, by place and by kind of release, and how many there were.

    Attributes
    ----------
    worst : dict
        By kind of claim, its scope, and its place.
    by_kind : dict of str to Finding
        By kind of release, where a release has several.
    places, kinds : Counter
        How many claims there were, and how many releases.
    not_judged : int
        How many claims were of noise so small that float64 has no numbers for what it hides.
    """

    worst: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    by_kind: dict[str, Finding] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    not_judged: int = 0

    def note(self, finding: Finding, judged: Judged) -> None:
        """Keep a finding if it is the worst of its kind."""
        claim = finding.claim
        self.places[claim.place] += 1
        self.not_judged += math.isnan(finding.real)
        place = (claim.kind, claim.scope.split(" ")[0], claim.place)
        if place not in self.worst or finding.ratio > self.worst[place].ratio:
            self.worst[place] = finding
        for kind in kinds_of(judged):
            if kind not in self.by_kind or finding.ratio > self.by_kind[kind].ratio:
                self.by_kind[kind] = finding

    def above(self, limit: float) -> list[Finding]:
        """Return the findings that are larger, the largest first."""
        return sorted((each for each in self.worst.values() if not each.ratio <= limit), key=lambda each: -each.ratio)


def kinds_of(judged: Judged) -> set[str]:
    """Return what a release is of, in words."""
    release, privacy = judged.release, judged.sections["privacy"]
    if release.second_moments is not None:
        name, neighbours = release.second_moments.mechanism, "replace-one"
        if judged.guarantee is not None and not judged.guarantee.neighbours.n_rows_public:
            neighbours = "add-remove"
        name = "scores" if release.margins is not None else name
        return {f"moments, {name}", f"moments, {neighbours}", f"moments, {judged.unit}"}
    kinds = {
        f"rows, {judged.unit}",
        "strength, " + next(s for s in ("mu", "rho", "epsilon", "sigma") if s in privacy),
    }
    for column in release.columns:
        whole = column.noise is not None and column.noise.distribution == "discrete-gaussian"
        noise = "randomised response" if column.response is not None else "whole numbers" if whole else "continuous"
        kinds |= (
            {f"{noise}, {judged.unit}", f"gaps, {column.missing}"}
            if column.missing != "refuse"
            else {f"{noise}, {judged.unit}"}
        )
        kinds |= {f"bounds found, {noise}"} if column.bounds_found else set()
        kinds |= {"category, gaussian"} if column.block and whole else set()
    return kinds | ({"partition"} if release.lineage.partition else set())


@dataclass
class Stated:
    """Random policies, published and judged.

    Parameters
    ----------
    monkeypatch : pytest.MonkeyPatch
        What is drawn is watched with it.
    key : Ed25519PrivateKey
        The publisher's.
    folder : Path
        For bundles.
    sharper : float
        How much farther the judge moves everything than it moves: a wrong judge, to see what a right one would find.
    """

    monkeypatch: pytest.MonkeyPatch
    key: Ed25519PrivateKey
    folder: Path
    sharper: float = 1.0
    series: dict[str, list[Judged]] = field(default_factory=lambda: defaultdict(list))
    judges: dict[tuple[str, int], Judge] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def publish(self, planned: Planned, *, with_plan: bool = False) -> Judged | None:
        """Publish under one policy, and judge what is stated of it; None of a strength that no noise gives."""
        number = sum(map(len, self.series.values()))
        bundles = self.folder / "bundles"
        bundles.mkdir(exist_ok=True)
        try:
            plan = plan_of(planned, self.folder, self.monkeypatch) if with_plan else None
            claims = claims_of_plan(plan, self.monkeypatch) if plan is not None else []
            with watched(self.monkeypatch) as drawn:
                policy = Policy.model_validate(planned.sections)
                out = bundles / f"{number}.tar"
                receipt = publish(planned.table, policy, out=out, key=self.key, partition=planned.partition)
        except DpGraphError:
            return None
        judged = Judged(receipt, policy, planned.sections, drawn, self.sharper)
        name = judged.release.dataset.name
        require_as_stated(judged.release, drawn)
        judge = Judge(judged, self.series[name])
        self.series[name].append(judged)
        self.judges[name, judged.release.lineage.number] = judge
        for claim in [*claims, *claims_of(receipt, policy)]:
            self.tally.note(judge(claim), judged)
        self.tally.kinds.update(kinds_of(judged))
        return judged

    def publish_many(self, seed: int, number: int, every: int = _PLANNED, *, of_scores: bool = False) -> None:
        """Publish so many random policies; with `of_scores`, all of them by normal scores."""
        policies, published = Policies(seed, of_scores=of_scores), 0
        while published < number:
            published += self.publish(policies(), with_plan=published % every == 0) is not None

    def read_books(self) -> None:
        """Judge what the ledger says of all of them, and what a ledger says that was restored from the bundles."""
        books = open_ledger().books()
        for name, releases in self.series.items():
            numbers = {each.release.lineage.number: each for each in releases}
            for place, claim in claims_of_ledger(books, name):
                judged = releases[-1] if not place else numbers.get(place)
                if judged is not None:  # some are booked that could not be made of what was found for them
                    self._note(name, judged, claim)
        self.require_restored()

    def require_restored(self, name: str = "restored.sqlite") -> None:
        """Fail unless a new ledger that is restored from the bundles has every release at what it was booked with."""
        ledger = open_ledger(self.folder / name)
        restore(ledger, [self.folder / "bundles"])
        booked, other = open_ledger().books(), ledger.books()
        for dataset in self.series:
            published = [each for each in booked.of(dataset) if each.state == "published"]
            restored = [each for each in other.of(dataset) if each.state == "published"]
            for one, two in zip(published, restored, strict=True):
                assert one.cost.mu.keys() == two.cost.mu.keys()
                figures = [(one.cost.excepted_delta, two.cost.excepted_delta)]
                figures += [(value, two.cost.mu[unit]) for unit, value in one.cost.mu.items()]
                figures += [(value, two.cost.booked_roots[unit]) for unit, value in one.cost.booked_roots.items()]
                for was, became in figures:
                    assert math.isclose(was, became, rel_tol=1e-5), (one, two)  # a sigma is rounded
                    self.tally.places["restored ledger"] += 1

    def read_pages(self) -> None:
        """Judge what a site says of all of them."""
        for name, number, claim in claims_of_site(self.folder / "bundles", self.folder / "site"):
            self._note(name, next(each for each in self.series[name] if each.release.lineage.number == number), claim)

    def _note(self, name: str, judged: Judged, claim: Claim) -> None:
        self.tally.note(self.judges[name, judged.release.lineage.number](claim), judged)


def findings(tally: Tally, limit: float) -> Iterator[str]:
    """Yield what is false, in words."""
    yield from (str(each) for each in tally.above(limit))
