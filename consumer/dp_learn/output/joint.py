"""Joint graphs as files and as lines for a person: periods/NAME/, changes.csv and summary.json."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dp_bundle.base.quoting import counted, quote_name
from dp_learn.glasso.joint import Kind
from dp_learn.inference.changes import Change
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray, Places
from dp_learn.output.folder import Summary, rows_of, write_end, write_graph, write_table
from dp_learn.output.messages import spell_lines
from dp_learn.output.network import network_of, place_all, save_picture
from dp_learn.output.several import SeveralResult, spell_p
from dp_learn.pipeline.graph import AT_LEAST
from dp_learn.pipeline.joint import Joint, Order

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
