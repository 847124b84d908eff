"""What the results of several releases of different rows share: their names, and what is left out."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from dp_bundle import Bundle
from dp_bundle.base.quoting import and_more, quote_name
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.inference.edges import Pairs
from dp_learn.output.folder import Result, Summary
from dp_learn.output.summary import name_release
from dp_learn.pipeline.compare import Comparison
from dp_learn.pipeline.joint import Joint

_NAMED = 10
Found = TypeVar("Found", bound=Comparison | Joint)


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


def spell_p(p_value: float) -> str:
    """Return a p-value with its sign: simulated ones are at least one over one more than the number of draws."""
    if p_value < 0.001:
        return "< 0.001"
    digits = max(2, -math.floor(math.log10(p_value)) + 1)
    return f"= {p_value:.{digits}f}"
