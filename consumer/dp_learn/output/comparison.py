"""A comparison as files and as lines for a person: differences.csv, strengths.csv and summary.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.quoting import and_more, quote_name
from dp_learn.inference.edges import LEVEL, Pairs, smallest_visible
from dp_learn.inference.releases import Difference, GlobalTest
from dp_learn.matrices.linalg import FloatArray, two_sided
from dp_learn.output.folder import Summary, write_table
from dp_learn.output.messages import describe_files
from dp_learn.output.several import SeveralResult, describe_change, describe_tests
from dp_learn.pipeline.compare import Comparison
from dp_learn.pipeline.graph import take_rows

_NAMED = 10


@dataclass(frozen=True, eq=False)
class ComparisonResult(SeveralResult[Comparison]):
    """A comparison with the bundles that it is of."""

    def differences(self) -> dict[str, Any]:
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
        found, parts = self.found, []
        each = found.differences
        ends = ([found.nodes[place] for place in side] for side in each.pairs)
        names = dict(zip(("source", "target"), ends, strict=True))
        for one, q_values in zip(each.each, each.q_values, strict=True):
            known = ~np.isnan(one.difference)
            values = (np.where(known, each.estimates[which].value, np.nan) for which in (one.first, one.second))
            parts.append(
                {
                    **self._differences(one, names, one.difference, one.standard_error),
                    "p_value": one.p_value,
                    "q_value": q_values,
                    **dict(zip(("partial_correlation_first", "partial_correlation_second"), values, strict=True)),
                }
            )
        return _surest_first(parts)

    def strengths(self) -> dict[str, Any]:
        """Return the table of the differences of nodes' strengths, surest first.

        The columns:

        node : name
            a column of the table
        difference
            of the strengths; this and what follows to `q_value` as in `differences.csv`, and empty without a link
        strength_first, strength_second
            the sum of its links in each release, with the signs of the mean of all
        """
        each, parts = self.found.differences, []
        for one, q_values in zip(each.each, each.strength_q_values, strict=True):
            linked = one.strength_error > 0.0
            difference, error = (np.where(linked, values, np.nan) for values in (one.strength, one.strength_error))
            parts.append(
                {
                    **self._differences(one, {"node": list(self.found.nodes)}, difference, error),
                    "p_value": two_sided(difference / error),
                    "q_value": q_values,
                    "strength_first": each.strengths[one.first],
                    "strength_second": each.strengths[one.second],
                }
            )
        return _surest_first(parts)

    def _differences(
        self, one: Difference, names: dict[str, list[str]], difference: FloatArray, error: FloatArray
    ) -> dict[str, Any]:
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

    def n_different(self, place: int) -> int:
        """Return how many pairs differ at the false discovery rate in one comparison of two releases."""
        return int(np.count_nonzero(np.nan_to_num(self.found.differences.q_values[place], nan=1.0) <= self.found.fdr))

    def entries(self) -> Summary:
        """Return what summary.json has of a comparison alone."""
        found, each = self.found, self.found.differences
        return {
            "categories": sorted(found.categories),
            "n_pairs": len(each.is_comparable),
            "n_compared": int(np.count_nonzero(each.is_comparable)),
            "n_edges_of_common_graph": found.n_edges,
            "n_links": int(np.count_nonzero(each.is_link)),
            "comparisons": [
                {
                    "first": self.names[one.first],
                    "second": self.names[one.second],
                    "n_different": self.n_different(place),
                    "largest_difference": _describe_test(one.largest) | self._largest(one),
                    "sum_of_squares": _describe_test(one.squares),
                }
                for place, one in enumerate(each.each)
            ],
            "overall": {
                "n_different": sum(map(self.n_different, range(len(each.each)))),
                "largest_difference": _describe_test(each.largest),
                "sum_of_squares": _describe_test(each.squares),
            },
        }

    def _largest(self, one: Difference) -> dict[str, str]:
        """Return the pair with the largest difference in standard errors."""
        return dict(
            zip(("source", "target"), self.ends(int(_by_size(one.difference, one.standard_error)[0])), strict=True)
        )

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


def _by_size(difference: FloatArray, error: FloatArray) -> npt.NDArray[np.intp]:
    """Return all places, those of the largest differences in standard errors first."""
    return np.argsort(-np.nan_to_num(np.abs(difference / error), nan=-1.0), kind="stable")


def _surest_first(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return several tables as one, by falling differences in standard errors."""
    joined: dict[str, Any] = {}
    for name, values in parts[0].items():
        lists = [part[name] for part in parts]
        joined[name] = list(chain.from_iterable(lists)) if isinstance(values, list) else np.concatenate(lists)
    return take_rows(joined, _by_size(joined["difference"], joined["standard_error"]))


def describe_comparison(result: ComparisonResult, folder: Path) -> str:
    """Return the lines that dp-learn compare prints."""
    each, lines = result.found.differences, result.describe_releases()
    for place, one in enumerate(each.each):
        lines += _describe_two(result, place, one)
    if len(each.each) > 1:
        lines.append(f"that all releases have one network: {describe_tests(each.largest, each.squares)}")
    return "\n".join([*lines, describe_files(folder)])


def _describe_two(result: ComparisonResult, place: int, one: Difference) -> list[str]:
    """Return the lines on two releases: the tests of all pairs, and the pairs that differ."""
    found, each = result.found, result.found.differences
    n_found, n_pairs = result.n_different(place), int(np.count_nonzero(each.is_comparable))
    lines = [
        f"{quote_name(result.names[one.second])} less {quote_name(result.names[one.first])}:",
        f"  test that the networks are the same: {describe_tests(one.largest, one.squares)}",
        f"  {result.describe_visible(one)}",
        f"  {n_found} of {n_pairs} pairs differ{'s' * (n_found == 1)} at a false discovery rate of {found.fdr:g}"
        + (f"; differences of partial correlations, with {100 * found.confidence:g} % intervals:" if n_found else ""),
    ]
    values = [each.estimates[which].value for which in (one.first, one.second)]
    pairs = (
        (result.ends(pair), [value[pair] for value in values], one.difference[pair], one.standard_error[pair])
        for pair in _by_size(one.difference, one.standard_error)[:n_found].tolist()
    )
    lines += result.describe_pairs(pairs, n_found, "differences.csv")

    q_values = np.nan_to_num(each.strength_q_values[place], nan=1.0)
    stronger = [
        f"{quote_name(found.nodes[node])} {describe_change(one.strength[node], result.z * one.strength_error[node])}"
        for node in np.argsort(q_values, kind="stable").tolist()
        if q_values[node] <= found.fdr
    ]
    if stronger:
        lines.append(f"  columns whose strength differs, over the links of both: {and_more(stronger, _NAMED)}")
    return lines
