"""Joint graphs as files and as lines for a person: periods/NAME/, changes.csv and summary.json."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.base.quoting import counted, quote_name
from dp_bundle.privacy.normal import normal_quantile
from dp_learn.glasso.joint_problem import Kind
from dp_learn.inference.changes import Change
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.comparison import (
    describe_pair,
    describe_releases,
    list_releases,
    name_releases,
    spell_p,
)
from dp_learn.output.folder import write_end, write_folder, write_graph, write_table
from dp_learn.output.messages import describe_files
from dp_learn.output.network import network_of, place_all
from dp_learn.output.picture import save_picture
from dp_learn.pipeline.graph import AT_LEAST
from dp_learn.pipeline.joint import Joint, Order

PERIODS = "periods"
_SHOWN = 10
_OTHERS = "the others"
_NUMBERS = {"before": "before_value", "after": "after_value"} | {
    name: name for name in ("difference", "standard_error", "p_value", "q_value")
}
_COUPLINGS = {
    Kind.FUSED: "values stay until they jump",
    Kind.SMOOTH: "values drift",
    Kind.PAIRS: "few values differ between periods",
    Kind.GROUP: "links are in the same places",
}


@dataclass(frozen=True, eq=False)
class JointResult:
    """Joint graphs with the bundles that they are of.

    Attributes
    ----------
    bundles : sequence of Bundle
        Verified and open, in the order given.
    found : Joint
        What was found in them.
    """

    bundles: Sequence[Bundle]
    found: Joint

    @cached_property
    def names(self) -> list[str]:
        """A short name for each period, all different, which is that of its folder."""
        return [name.strip(".") or f"period {place}" for place, name in enumerate(name_releases(self.bundles), start=1)]

    @cached_property
    def changes_of_pairs(self) -> npt.NDArray[np.int64]:
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
        in_time = self.found.order is Order.TIME
        return self.names[one.before[-1]] if in_time else _OTHERS, self.names[one.after[0]]

    def changes(self) -> dict[str, Any]:
        """Return the table of pairs that changed, in the order of the changes, surest first in each."""
        ends: dict[str, list[str]] = {name: [] for name in ("source", "target", "from", "to")}
        numbers: dict[str, list[float]] = {name: [] for name in _NUMBERS}
        for one in self.found.claimed:
            pairs = self.found.changed(one)
            before, after = ([side] * len(pairs) for side in self.sides(one))
            for name, values in zip(ends, (self.ends(0, pairs), self.ends(1, pairs), before, after), strict=True):
                ends[name] += values
            for name, attribute in _NUMBERS.items():
                numbers[name] += getattr(one, attribute)[pairs].tolist()
        return ends | {name: np.array(values, dtype=float) for name, values in numbers.items()}

    def ends(self, side: int, pairs: Any) -> list[str]:
        """Return the names of one end of some pairs."""
        return [self.found.nodes[place] for place in self.found.pairs[side][pairs]]

    def summary(self) -> dict[str, Any]:
        """Return the contents of summary.json."""
        found, names = self.found, self.names
        return {
            "bundles": list_releases(self.bundles, names, found.effective_rows),
            "columns": list(found.nodes),
            "left_out": {name: [names[place] for place in where] for name, where in found.left_out.items()},
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
            "fdr": found.fdr,
            "confidence": found.confidence,
            "n_pairs": len(found.nodes) * (len(found.nodes) - 1) // 2,
            "n_compared": 0 if found.changes is None else int(np.count_nonzero(found.changes.is_comparable)),
            "p_values": [] if found.changes is None else found.changes.evidence.tolist(),
            "change_points" if found.order is Order.TIME else "differing": [
                self._describe(one) for one in found.claimed
            ],
            "contradictions": found.contradictions,
            "warnings": found.warnings,
            "notes": found.notes,
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


def write_joint(result: JointResult, target: Path, *, report: str | None) -> None:
    """Write the folder of joint graphs, as `write_results` does that of one graph."""
    entries, found = result.summary(), result.found

    def write(new: Path) -> None:
        for name, graph, measures, bundle, n_edges in zip(
            result.names, found.graphs, found.measures, entries["bundles"], entries["n_edges"], strict=True
        ):
            folder, title = new / PERIODS / name, f"{quote_name(name)}, of {len(found.graphs)} graphs learned together"
            folder.mkdir(parents=True)
            write_graph(graph, measures, folder)
            network = network_of(graph, measures, at_least=AT_LEAST, given=result.places)
            save_picture(network, folder / "graph.png", title, list(found.left_out))
            write_end({"bundle": bundle, "n_edges": n_edges, "notes": measures.notes}, None, folder)
        write_table(result.changes(), new / "changes.csv")
        write_end(entries, report, new)

    write_folder(target, write)


def describe_joint(result: JointResult, folder: Path) -> str:
    """Return the lines that dp-learn joint prints."""
    found, names = result.found, result.names
    chosen = "chosen by the extended Bayesian information criterion" if found.scores else "as given"
    edges = result.summary()["n_edges"]
    lines = [
        *describe_releases(result.bundles, names, found),
        f"{len(names)} graphs of {len(found.nodes)} columns, with {spell_range(edges)} edges each; "
        f"estimated as if {_COUPLINGS[found.kind]}",
        f"  alpha = {found.alpha:.4g} and coupling strength = {found.coupling:.4g}, {chosen}; {found.solution.status}, "
        f"duality gap {found.solution.duality_gap:.2g}",
    ]
    if found.changes is not None:
        lines += _describe_changes(result)
    return "\n".join([*lines, describe_files(folder)])


def spell_range(numbers: Sequence[int]) -> str:
    """Return the least and the most of some numbers, or the one that all are."""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def summarize_changes(result: JointResult) -> str:
    """Return a sentence on how many changes there are."""
    found, count = result.found, len(result.found.claimed)
    level = f"at a level of {1.0 - found.confidence:.2g} for all together"
    if found.order is Order.TIME:
        return f"{counted(count, 'change point') if count else 'no change point was found'} {level}"
    if len(result.names) == 2:
        return f"the two networks {'differ' if count else 'were not found to differ'} {level}"
    return f"{count} of {len(result.names)} networks differ{'s' * (count == 1)} from those of the others {level}"


def kind_of_change(result: JointResult, one: Change, pair: int) -> str:
    """Return the word for a change that was found, by the joint graphs on both sides of it."""
    changes, graphs = result.found.changes, result.found.graphs
    if changes is None:
        return ""
    ends = changes.pairs[0][pair], changes.pairs[1][pair]
    before = result.found.order is Order.TIME and bool(graphs[one.before[-1]].adjacency[ends])
    after = bool(graphs[one.after[0]].adjacency[ends])
    if result.found.order is Order.TIME and before != after:
        return "new" if after else "gone"
    return "larger" if one.difference[pair] > 0.0 else "smaller"


def _describe_changes(result: JointResult) -> list[str]:
    """Return the lines on what changed."""
    found = result.found
    z = normal_quantile((1.0 + found.confidence) / 2.0)
    lines = [summarize_changes(result)]
    for one in found.claimed:
        pairs = found.changed(one)
        before, after = map(quote_name, result.sides(one))
        kinds = Counter(kind_of_change(result, one, pair) for pair in pairs.tolist())
        said = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
        lines.append(
            f"  {before} to {after} (p {spell_p(one.corrected)}): {counted(len(pairs), 'pair')} at a false discovery "
            f"rate of {found.fdr:g}{f' ({said})' if said else ''}"
        )
        for pair in pairs[:_SHOWN].tolist():
            ends = [result.ends(side, [pair])[0] for side in (0, 1)]
            values = [one.before_value[pair], one.after_value[pair]]
            lines.append(describe_pair(ends, values, one.difference[pair], z * one.standard_error[pair]))
        if len(pairs) > _SHOWN:
            lines.append(f"    {counted(len(pairs) - _SHOWN, 'more pair')}: see changes.csv")
    return lines
