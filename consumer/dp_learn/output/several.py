"""What the results of several releases of different rows share: their names, their promises, and what is left out."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from dp_bundle import Bundle
from dp_bundle.base.quoting import and_more, counted, quote_name
from dp_bundle.describe.sentences import describe_guarantee, describe_several
from dp_bundle.privacy.noise import normal_quantile
from dp_learn.covariance.sources import counts_rows
from dp_learn.inference.edges import Pairs
from dp_learn.inference.releases import GlobalTest
from dp_learn.output.folder import Result, Summary
from dp_learn.output.messages import describe_bundle, describe_number
from dp_learn.output.summary import name_release
from dp_learn.pipeline.compare import Comparison
from dp_learn.pipeline.joint import Joint

_SHOWN = 10
_NAMED = 10
Found = TypeVar("Found", bound=Comparison | Joint)
Pair = tuple[Sequence[str], Sequence[float], float, float]  # ends, both values, the change, and its standard error


@dataclass(frozen=True, eq=False)
class SeveralResult(Result, Generic[Found]):
    """What was found in several releases.

    Attributes
    ----------
    bundles, summary
        As of `Result`, in the order given.
    found : Comparison or Joint
        What was found in them.
    """

    bundles: Sequence[Bundle]
    found: Found

    @cached_property
    def names(self) -> list[str]:
        """A short name for each release, all different: of its file, with a number where files share a name."""
        stems = [bundle.path.name.removesuffix(".tar").removesuffix(".bundle") for bundle in self.bundles]
        shared = Counter(stems)
        return [stem if shared[stem] == 1 else f"{stem} ({place})" for place, stem in enumerate(stems, start=1)]

    @cached_property
    def summary(self) -> Summary:  # type: ignore[override]
        """The contents of summary.json."""
        found, each = self.found, zip(self.names, self.bundles, self.found.effective_rows, strict=True)
        return {
            "bundles": [
                {
                    "name": name,
                    "partition": bundle.release.lineage.partition,
                    **name_release(bundle),
                    "effective_rows": rows,
                }
                for name, bundle, rows in each
            ],
            "columns": list(found.nodes),
            "left_out": {name: [self.names[place] for place in where] for name, where in found.left_out.items()},
            "fdr": found.fdr,
            "confidence": found.confidence,
            **self.entries(),
            "contradictions": found.contradictions,
            "warnings": found.warnings,
            "notes": found.notes,
        }

    @property
    @abstractmethod
    def pairs(self) -> Pairs:
        """The positions of the ends of every pair."""

    def ends(self, pair: int) -> list[str]:
        """Return the names of the ends of a pair."""
        return [self.found.nodes[int(side[pair])] for side in self.pairs]

    @abstractmethod
    def entries(self) -> Summary:
        """Return what summary.json has of this kind of result alone."""

    @property
    def z(self) -> float:
        """Half the width of intervals, in standard errors."""
        return normal_quantile((1.0 + self.found.confidence) / 2.0)

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader should know: the columns that cannot be compared, first."""
        shown = [
            f"{quote_name(name)} ({', '.join(where) or 'in part in each'})"
            for name, where in self.summary["left_out"].items()
        ]
        left = [f"left out, as the noise of a release drowns them: {and_more(shown, _NAMED)}"] if shown else []
        return [*left, *self.found.notes]

    def describe_releases(self) -> list[str]:
        """Return the lines on each release and the notes on all.

        They say who signed it, what it promises, unless the last did too, and how many rows it is worth.
        """
        lines, last = list[str](), list[str]()
        for name, bundle, rows in zip(self.names, self.bundles, self.found.effective_rows, strict=True):
            about = "" if counts_rows(bundle) else "about "
            promise = [describe_guarantee(bundle.release)[0], *describe_several(bundle.release.guarantee)]
            lines += [
                f"{describe_bundle(bundle)}{'; it promises the same' if promise == last else ''}",
                *(f"  {said}" for said in promise if promise != last),
                f"  {about}{bundle.release.n_rows} rows, whose correlations are as precise as those of {rows:.0f} "
                f"Gaussian rows without noise{'; below, it is ' + quote_name(name) if name.endswith(')') else ''}",
            ]
            last = promise
        return [*lines, *(f"  {sentence}" for sentence in self.notes)]

    def describe_pairs(self, pairs: Iterable[Pair], count: int, file: str) -> list[str]:
        """Return a line for each of the first pairs that differ, with its interval, and how many more there are."""
        lines = []
        for (ends, values, change, error), _ in zip(pairs, range(_SHOWN), strict=False):
            first, second = map(describe_number, values)
            said = describe_change(change, self.z * error)
            lines.append(f"    {said}  {' -- '.join(map(quote_name, ends))}  ({first}, then {second})")
        more = count - _SHOWN
        return [*lines, f"    {counted(more, 'more pair')}: see {file}"] if more > 0 else lines


def describe_change(change: float, margin: float) -> str:
    """Return a difference with its interval."""
    low, high = (describe_number(change + sign * margin) for sign in (-1.0, 1.0))
    return f"{describe_number(change)} ({low} to {high})"


def describe_tests(largest: GlobalTest, squares: GlobalTest) -> str:
    """Return the p-values of both tests of all pairs at once."""
    return f"p {spell_p(largest.p_value)} by the largest difference, p {spell_p(squares.p_value)} by the sum of squares"


def spell_p(p_value: float) -> str:
    """Return a p-value with its sign: simulated ones are at least one over one more than the number of draws."""
    if p_value < 0.001:
        return "< 0.001"
    digits = max(2, -math.floor(math.log10(p_value)) + 1)
    return f"= {p_value:.{digits}f}"
