"""The results of several releases of different rows, as files and as lines for a person: comparisons and joint graphs.

A comparison has differences.csv, strengths.csv and summary.json. Joint graphs have periods/NAME/, changes.csv and the
same summary.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import and_more, counted, quote_name
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.glasso.joint import Kind
from dp_learn.inference.changes import Change
from dp_learn.inference.edges import LEVEL, Pairs, smallest_visible
from dp_learn.inference.releases import Difference, Differences, GlobalTest
from dp_learn.matrices.linalg import FloatArray, Places, two_sided
from dp_learn.output.folder import Result, Summary, rows_of, write_end, write_graph, write_table
from dp_learn.output.messages import spell_lines
from dp_learn.output.network import network_of, place_all, save_picture
from dp_learn.output.summary import name_release
from dp_learn.pipeline.compare import Comparison
from dp_learn.pipeline.graph import AT_LEAST, take_rows
from dp_learn.pipeline.joint import Joint, Order

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


Table = dict[str, Any]
_ENDS = ("source", "target")


@dataclass(frozen=True, eq=False)
class ComparisonResult(SeveralResult[Comparison]):
    """A comparison with the bundles that it is of."""

    def differences(self) -> Table:
        """Return the table of differences of every pair, surest first, those that cannot be compared last.

        The columns:

        source, target : names
            two columns of the table
        first, second : names
            which two releases, of more than two
        difference : -2 to 2
            of the partial correlations, the second less the first; empty, as what follows, where it cannot be compared
        standard_error
            of the difference, for sampling and noise of both
        ci_low, ci_high
            the interval at `--confidence`, for this pair alone
        p_value : 0 to 1
            of no difference, for this pair alone
        q_value : 0 to 1
            the least false discovery rate that finds it
        partial_correlation_first, partial_correlation_second : -1 to 1
            in each release
        """
        return _surest_first([pairs for pairs, _ in self.tables])

    def strengths(self) -> Table:
        """Return the table of the differences of nodes' strengths, surest first.

        The columns:

        node : name
            a column of the table
        difference
            of the strengths; this and what follows to `q_value` as in `differences.csv`, and empty without a link
        strength_first, strength_second
            the sum of its links in each release, with the signs of the mean of all
        """
        return _surest_first([strengths for _, strengths in self.tables])

    @cached_property
    def tables(self) -> list[tuple[Table, Table]]:
        """Both tables of every two releases, each surest first."""
        each = self.found.differences
        together = zip(each.each, each.q_values, each.strength_q_values, strict=True)
        return [(self._of_pairs(one, q), self._of_strengths(one, q_of_nodes)) for one, q, q_of_nodes in together]

    @cached_property
    def differing(self) -> list[list[list[Table]]]:
        """Of every two releases, the rows of both tables that are found at the false discovery rate."""
        fdr = self.found.fdr
        return [[rows_of(take_rows(one, np.flatnonzero(one["q_value"] <= fdr))) for one in two] for two in self.tables]

    @property
    def n_compared(self) -> int:
        """The number of pairs that can be compared."""
        return int(np.count_nonzero(self.found.differences.is_comparable))

    def _of_pairs(self, one: Difference, q_values: FloatArray) -> Table:
        """Return the table of differences of two releases; the values of pairs that cannot be compared are empty."""
        known, estimates = ~np.isnan(one.difference), self.found.differences.estimates
        first, second = (np.where(known, estimates[which].value, np.nan) for which in (one.first, one.second))
        ends = ([self.found.nodes[place] for place in side] for side in self.pairs)
        names = dict(zip(_ENDS, ends, strict=True))
        tests = {"p_value": one.p_value, "q_value": q_values}
        values = {"partial_correlation_first": first, "partial_correlation_second": second}
        return _surest_first([self._differences(one, names, one.difference, one.standard_error) | tests | values])

    def _of_strengths(self, one: Difference, q_values: FloatArray) -> Table:
        """Return the table of the strengths of two releases; those of columns without a link are empty."""
        linked, strengths = one.strength_error > 0.0, self.found.differences.strengths
        difference, error = (np.where(linked, values, np.nan) for values in (one.strength, one.strength_error))
        tests = {"p_value": two_sided(difference / error), "q_value": q_values}
        values = {"strength_first": strengths[one.first], "strength_second": strengths[one.second]}
        names = {"node": list(self.found.nodes)}
        return _surest_first([self._differences(one, names, difference, error) | tests | values])

    def _differences(
        self, one: Difference, names: dict[str, list[str]], difference: FloatArray, error: FloatArray
    ) -> Table:
        """Return the columns that both tables have; the releases are named where there are more than two."""
        sides = {"first": one.first, "second": one.second} if len(self.bundles) > 2 else {}
        return {
            **names,
            **{name: [self.names[which]] * len(difference) for name, which in sides.items()},
            "difference": difference,
            "standard_error": error,
            "ci_low": difference - self.z * error,
            "ci_high": difference + self.z * error,
        }

    def describe_visible(self, one: Difference) -> str:
        """Return how small a difference could have been found, in a typical pair of those that are compared."""
        errors = one.standard_error[np.isfinite(one.standard_error)]
        alone, among = (smallest_visible(float(np.median(errors)), LEVEL / n) for n in (1, len(errors)))
        return (
            f"found four times out of five in a typical pair: a difference of {alone:.2g} by a test of that pair at "
            f"the {100 * LEVEL:.0f} % level, and one of {among:.2g} among all {len(errors):,} pairs"
        )

    def entries(self) -> Summary:
        """Return what summary.json has of a comparison alone."""
        found, each = self.found, self.found.differences
        n_different = [len(pairs) for pairs, _ in self.differing]
        return {
            "categories": sorted(found.categories),
            "n_pairs": len(each.is_comparable),
            "n_compared": self.n_compared,
            "n_edges_of_common_graph": found.n_edges,
            "n_links": int(np.count_nonzero(each.is_link)),
            "comparisons": [
                {
                    "first": self.names[one.first],
                    "second": self.names[one.second],
                    "n_different": n_found,
                    "largest_difference": _describe_test(one.largest) | {end: table[end][0] for end in _ENDS},
                    "sum_of_squares": _describe_test(one.squares),
                }
                for one, n_found, (table, _) in zip(each.each, n_different, self.tables, strict=True)
            ],
            "overall": {
                "n_different": sum(n_different),
                "largest_difference": _describe_test(each.largest),
                "sum_of_squares": _describe_test(each.squares),
            },
        }

    @property
    def pairs(self) -> Pairs:
        """The positions of the ends of every pair."""
        return self.found.differences.pairs

    def write_files(self, folder: Path) -> None:
        """Write both tables."""
        write_table(self.differences(), folder / "differences.csv")
        write_table(self.strengths(), folder / "strengths.csv")


def _describe_test(test: GlobalTest) -> dict[str, Any]:
    return {"statistic": test.statistic, "critical_value": test.critical, "p_value": test.p_value}


def _surest_first(parts: Sequence[Table]) -> Table:
    """Return several tables as one, by falling differences in standard errors; those that are unknown come last."""
    joined: Table = {}
    for name, values in parts[0].items():
        lists = [part[name] for part in parts]
        joined[name] = list(chain.from_iterable(lists)) if isinstance(values, list) else np.concatenate(lists)
    size = np.nan_to_num(np.abs(joined["difference"] / joined["standard_error"]), nan=-1.0)
    return take_rows(joined, np.argsort(-size, kind="stable"))


def describe_tests(found: Difference | Differences) -> str:
    """Return the p-values of both tests of all pairs at once."""
    largest, squares = spell_p(found.largest.p_value), spell_p(found.squares.p_value)
    return f"p {largest} by the largest difference, p {squares} by the sum of squares"


def describe_comparison(result: ComparisonResult, folder: Path) -> str:
    """Return the lines that dp-learn compare prints."""
    return spell_lines("compared.txt", result, folder, describe_tests=describe_tests)


PERIODS = "periods"
_OTHERS = "the others"
_NUMBERS = {
    "before": "before_value",
    "after": "after_value",
    "difference": "difference",
    "standard_error": "standard_error",
    "p_value": "p_value",
    "q_value": "q_value",
}
_COUPLINGS = {
    Kind.FUSED: "values stay until they jump",
    Kind.SMOOTH: "values drift",
    Kind.PAIRS: "few values differ between periods",
    Kind.GROUP: "links are in the same places",
}


@dataclass(frozen=True, eq=False)
class JointResult(SeveralResult[Joint]):
    """Joint graphs with the bundles that they are of."""

    @cached_property
    def names(self) -> list[str]:
        """A short name for each period, all different, which is that of its folder."""
        return [name.strip(".") or f"period {place}" for place, name in enumerate(super().names, start=1)]

    @property
    def coupling(self) -> str:
        """How periods are alike, in words."""
        return _COUPLINGS[self.found.kind]

    @property
    def in_time(self) -> bool:
        """Whether the periods have an order."""
        return self.found.order is Order.TIME

    @cached_property
    def changes_of_pairs(self) -> Places:
        """The sign of what changed into each period, or in it from the others, shape (K, p, p); zero elsewhere."""
        signs = np.zeros((len(self.found.graphs), len(self.found.nodes), len(self.found.nodes)), dtype=np.int64)
        for one in self.found.claimed:
            changed = self.found.changed(one)
            ends = tuple(side[changed] for side in self.found.pairs)
            for period in one.after:
                signs[period][ends] = np.sign(one.difference[changed])
        return signs

    @cached_property
    def links(self) -> Pairs:
        """The ends of all links of any period and of all pairs that changed, these first, the strongest first."""
        size = np.max([np.abs(graph.weights) for graph in self.found.graphs], axis=0)
        changed = (self.changes_of_pairs != 0).any(axis=0)
        ends = np.nonzero(np.triu((size != 0.0) | changed, 1))
        order = np.argsort(-(size + 2.0 * changed)[ends], kind="stable")
        return ends[0][order], ends[1][order]

    @cached_property
    def places(self) -> FloatArray:
        """Where columns are in the graphs of all periods, by the links of all, from -1 to 1 both ways."""
        size = np.max([np.abs(graph.weights) for graph in self.found.graphs], axis=0)
        linked = np.bincount(np.concatenate(self.links), minlength=len(size)) > 0
        return place_all(np.column_stack(self.links), size[self.links], ~linked)

    def sides(self, one: Change) -> tuple[str, str]:
        """Return the names of the last period before a change and of the first one after it."""
        return self.names[one.before[-1]] if self.in_time else _OTHERS, self.names[one.after[0]]

    def changes(self) -> dict[str, Any]:
        """Return the table of pairs that changed at the rate of `--fdr`, by change, surest first in each.

        The columns:

        source, target : names
            two columns whose partial correlation changed
        from, to : names
            the last period before the change point and the first after it; without an order `the others` and a period
        before, after : -1 to 1
            the partial correlations of all periods between change points, pooled; else of the others and of the period
        difference, standard_error
            `after` less `before`, and its error
        p_value : 0 to 1
            of no difference, for this pair alone
        q_value : 0 to 1
            the least false discovery rate over all pairs and places
        """
        rows = [(one, pair) for one in self.found.claimed for pair in self.found.changed(one).tolist()]
        names = [(*self.ends(pair), *self.sides(one)) for one, pair in rows]
        numbers = [[getattr(one, name)[pair] for name in _NUMBERS.values()] for one, pair in rows]
        columns = np.array(numbers, dtype=float).reshape(-1, len(_NUMBERS)).T
        said = map(list, zip(*names, strict=True)) if names else [[], [], [], []]
        return dict(zip(("source", "target", "from", "to"), said, strict=True)) | dict(
            zip(_NUMBERS, columns, strict=True)
        )

    def changed(self, one: Change) -> list[dict[str, Any]]:
        """Return the rows of the table of one change."""
        before, after = self.sides(one)
        return [row for row in self._rows if (row["from"], row["to"]) == (before, after)]

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """The table of changes, row by row."""
        return rows_of(self.changes())

    def describe_kinds(self, one: Change) -> str:
        """Return how many pairs are new, gone, larger or smaller after a change."""
        kinds = Counter(self.kind_of_change(one, pair) for pair in self.found.changed(one).tolist())
        return ", ".join(f"{number} {kind}" for kind, number in kinds.items())

    @property
    def sentence(self) -> str:
        """How many changes there are."""
        found, count = self.found, len(self.found.claimed)
        level = f"at a level of {1.0 - found.confidence:.2g} for all together"
        if self.in_time:
            return f"{counted(count, 'change point') if count else 'no change point was found'} {level}"
        if len(self.names) == 2:
            return f"the two networks {'differ' if count else 'were not found to differ'} {level}"
        return f"{count} of {len(self.names)} networks differ{'s' * (count == 1)} from those of the others {level}"

    @property
    def pairs(self) -> Pairs:
        """The positions of the ends of every pair."""
        return self.found.pairs

    def entries(self) -> Summary:
        """Return what summary.json has of joint graphs alone.

        The entries:

        order, coupling
            `time` or `none`; `fused`, `smooth`, `pairs` (fused over all pairs) or `group`
        alpha, coupling_strength
            the penalties of entries and of differences, on correlations
        penalties_chosen_by, grid
            who chose them; `alpha`, `coupling_strength`, `score` and `n_values` (distinct) in EBIC's second stage
        objective, duality_gap, status, n_iter
            the certificate of the joint estimate
        refit
            whether weights were fitted again without the penalty of entries
        n_edges
            of every period
        n_pairs, n_compared
            pairs of columns, and those clear enough to be tested
        p_values
            of no change at every place, corrected for all; without an order, for every period
        change_points, differing
            a list: `from`, `to`, the periods `before` and `after`, `largest_difference` in standard errors,
            `sum_of_squares` in deviations from chance, the corrected `p_value`, and `n_changed` pairs
        """
        found = self.found
        return {
            "order": found.order.value,
            "coupling": found.kind.value,
            "alpha": found.alpha,
            "coupling_strength": found.coupling,
            "penalties_chosen_by": "the extended Bayesian information criterion" if found.scores else "the user",
            "grid": [
                {"alpha": one.alpha, "coupling_strength": one.coupling, "score": one.score, "n_values": one.n_values}
                for one in found.scores
            ],
            "objective": found.solution.objective,
            "duality_gap": found.solution.duality_gap,
            "status": str(found.solution.status),
            "n_iter": found.solution.n_iter,
            "refit": found.is_refitted,
            "n_edges": [int(np.count_nonzero(np.triu(graph.adjacency, 1))) for graph in found.graphs],
            "n_pairs": len(found.pairs[0]),
            "n_compared": 0 if found.changes is None else int(np.count_nonzero(found.changes.is_comparable)),
            "p_values": [] if found.changes is None else found.changes.evidence.tolist(),
            "change_points" if self.in_time else "differing": [self._describe(one) for one in found.claimed],
        }

    def _describe(self, one: Change) -> dict[str, Any]:
        before, after = self.sides(one)
        return {
            "from": before,
            "to": after,
            "before": [self.names[place] for place in one.before],
            "after": [self.names[place] for place in one.after],
            "largest_difference": one.largest,
            "sum_of_squares": one.squares,
            "p_value": one.corrected,
            "n_changed": len(self.found.changed(one)),
        }

    def count_edges(self, what: str) -> str:
        """Return the number of links that all graphs have, or the least and the most, by that word for one."""
        low, high = min(self.summary["n_edges"]), max(self.summary["n_edges"])
        return f"{low} to {counted(high, what)}" if low < high else counted(high, what)

    def kind_of_change(self, one: Change, pair: int) -> str:
        """Return the word for a change that was found, by the joint graphs on both sides of it."""
        graphs, ends = self.found.graphs, tuple(side[pair] for side in self.found.pairs)
        before, after = (bool(graphs[period].adjacency[ends]) for period in (one.before[-1], one.after[0]))
        if self.in_time and before != after:
            return "new" if after else "gone"
        return "larger" if one.difference[pair] > 0.0 else "smaller"

    def write_files(self, folder: Path) -> None:
        """Write a folder for each period, and the table of changes."""
        found, entries = self.found, self.summary
        title = f"of {len(found.graphs)} graphs learned together"
        for name, graph, measures, bundle, n_edges in zip(
            self.names, found.graphs, found.measures, entries["bundles"], entries["n_edges"], strict=True
        ):
            own = folder / PERIODS / name
            own.mkdir(parents=True)
            write_graph(graph, measures, own)
            network = network_of(graph, measures, at_least=AT_LEAST, given=self.places)
            save_picture(network, own / "graph.png", f"{quote_name(name)}, {title}", list(found.left_out))
            write_end({"bundle": bundle, "n_edges": n_edges, "notes": measures.notes}, {}, own)
        write_table(self.changes(), folder / "changes.csv")


def describe_joint(result: JointResult, folder: Path) -> str:
    """Return the lines that dp-learn joint prints."""
    return spell_lines("joint.txt", result, folder, spell_p=spell_p)
