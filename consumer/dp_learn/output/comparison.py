"""A comparison as files and as lines for a person: differences.csv, strengths.csv and summary.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dp_learn.inference.edges import LEVEL, Pairs, smallest_visible
from dp_learn.inference.releases import Difference, Differences, GlobalTest
from dp_learn.matrices.linalg import FloatArray, two_sided
from dp_learn.output.folder import Summary, rows_of, write_table
from dp_learn.output.messages import spell_lines
from dp_learn.output.several import SeveralResult, spell_p
from dp_learn.pipeline.compare import Comparison
from dp_learn.pipeline.graph import take_rows

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
