"""A comparison as files and as lines for a person: differences.csv, strengths.csv and summary.json."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import and_more, counted, quote_name, quote_path
from dp_bundle.describe.sentences import describe_guarantee, describe_several
from dp_bundle.privacy.normal import normal_quantile
from dp_learn.covariance.sources import counts_rows
from dp_learn.inference.differences import Difference, GlobalTest
from dp_learn.matrices.linalg import FloatArray, two_sided
from dp_learn.output.folder import write_end, write_folder, write_table
from dp_learn.output.messages import describe_files, describe_number
from dp_learn.output.summary import name_release
from dp_learn.pipeline.compare import Comparison
from dp_learn.pipeline.graph import take_rows
from dp_learn.pipeline.joint import Joint

_SHOWN = 10
_NAMED = 10


@dataclass(frozen=True, eq=False)
class ComparisonResult:
    """A comparison with the bundles that it is of.

    Attributes
    ----------
    bundles : sequence of Bundle
        Verified and open.
    found : Comparison
        What was found in them.
    """

    bundles: Sequence[Bundle]
    found: Comparison

    @property
    def names(self) -> list[str]:
        """A short name for each release, all different: of its file, with a number where files share a name."""
        return name_releases(self.bundles)

    def differences(self) -> dict[str, Any]:
        """Return the table of differences of every pair, surest first, those that cannot be compared last."""
        found = self.found
        each = found.differences
        z = normal_quantile((1.0 + found.confidence) / 2.0)
        parts = []
        for one, q_values in zip(each.each, each.q_values, strict=True):
            first, second = each.estimates[one.first].value, each.estimates[one.second].value
            known = ~np.isnan(one.difference)
            parts.append(
                {
                    "source": [found.nodes[place] for place in each.pairs[0]],
                    "target": [found.nodes[place] for place in each.pairs[1]],
                    **self._releases(one, len(first)),
                    **_with_interval(one.difference, one.standard_error, z),
                    "p_value": one.p_value,
                    "q_value": q_values,
                    "partial_correlation_first": np.where(known, first, np.nan),
                    "partial_correlation_second": np.where(known, second, np.nan),
                }
            )
        return _surest_first(parts)

    def strengths(self) -> dict[str, Any]:
        """Return the table of the differences of nodes' strengths, surest first."""
        found = self.found
        each = found.differences
        z = normal_quantile((1.0 + found.confidence) / 2.0)
        parts = []
        for one, q_values in zip(each.each, each.strength_q_values, strict=True):
            linked = one.strength_error > 0.0
            error = np.where(linked, one.strength_error, np.nan)
            difference = np.where(linked, one.strength, np.nan)
            parts.append(
                {
                    "node": list(found.nodes),
                    **self._releases(one, len(found.nodes)),
                    **_with_interval(difference, error, z),
                    "p_value": two_sided(difference / error),
                    "q_value": q_values,
                    "strength_first": each.strengths[one.first],
                    "strength_second": each.strengths[one.second],
                }
            )
        return _surest_first(parts)

    def _releases(self, one: Difference, count: int) -> dict[str, list[str]]:
        """Return the columns that name the two releases, where there are more."""
        if len(self.bundles) == 2:
            return {}
        return {"first": [self.names[one.first]] * count, "second": [self.names[one.second]] * count}

    def n_different(self, place: int) -> int:
        """Return how many pairs differ at the false discovery rate in one comparison of two releases."""
        return int(np.count_nonzero(np.nan_to_num(self.found.differences.q_values[place], nan=1.0) <= self.found.fdr))

    def summary(self) -> dict[str, Any]:
        """Return the contents of summary.json."""
        found = self.found
        each = found.differences
        return {
            "bundles": list_releases(self.bundles, self.names, found.effective_rows),
            "columns": list(found.nodes),
            "categories": sorted(found.categories),
            "left_out": {name: [self.names[place] for place in where] for name, where in found.left_out.items()},
            "n_pairs": len(each.is_comparable),
            "n_compared": int(np.count_nonzero(each.is_comparable)),
            "n_edges_of_common_graph": found.n_edges,
            "n_links": int(np.count_nonzero(each.is_link)),
            "fdr": found.fdr,
            "confidence": found.confidence,
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
            "contradictions": found.contradictions,
            "warnings": found.warnings,
            "notes": found.notes,
        }

    def _largest(self, one: Difference) -> dict[str, str]:
        """Return the pair with the largest difference in standard errors."""
        pairs = self.found.differences.pairs
        place = int(np.nanargmax(np.abs(one.difference / one.standard_error)))
        return {"source": self.found.nodes[pairs[0][place]], "target": self.found.nodes[pairs[1][place]]}


def name_releases(bundles: Sequence[Bundle]) -> list[str]:
    """Return a short name for each release, all different: of its file, with a number where files share a name."""
    stems = [bundle.path.name.removesuffix(".tar").removesuffix(".bundle") for bundle in bundles]
    shared = Counter(stems)
    return [stem if shared[stem] == 1 else f"{stem} ({place})" for place, stem in enumerate(stems, start=1)]


def list_releases(bundles: Sequence[Bundle], names: Sequence[str], rows: Sequence[float]) -> list[dict[str, Any]]:
    """Return what summary.json says of each release, and of the rows without noise that it is worth."""
    return [
        {
            "name": name,
            "partition": bundle.release.lineage.partition,
            **name_release(bundle),
            "effective_rows": own,
        }
        for name, bundle, own in zip(names, bundles, rows, strict=True)
    ]


def _with_interval(difference: FloatArray, error: FloatArray, z: float) -> dict[str, FloatArray]:
    return {
        "difference": difference,
        "standard_error": error,
        "ci_low": difference - z * error,
        "ci_high": difference + z * error,
    }


def _describe_test(test: GlobalTest) -> dict[str, Any]:
    return {"statistic": test.statistic, "critical_value": test.critical, "p_value": test.p_value}


def _surest_first(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return several tables as one, by falling differences in standard errors."""
    joined: dict[str, Any] = {}
    for name, values in parts[0].items():
        lists = [part[name] for part in parts]
        joined[name] = list(chain.from_iterable(lists)) if isinstance(values, list) else np.concatenate(lists)
    z = np.abs(joined["difference"] / joined["standard_error"])
    return take_rows(joined, np.argsort(-np.nan_to_num(z, nan=-1.0), kind="stable"))


def write_comparison(result: ComparisonResult, target: Path, *, report: str | None) -> None:
    """Write the folder of a comparison, as `write_results` does that of a graph."""

    def write(new: Path) -> None:
        write_table(result.differences(), new / "differences.csv")
        write_table(result.strengths(), new / "strengths.csv")
        write_end(result.summary(), report, new)

    write_folder(target, write)


def describe_comparison(result: ComparisonResult, folder: Path) -> str:
    """Return the lines that dp-learn compare prints."""
    found, names = result.found, result.names
    lines = describe_releases(result.bundles, names, found)
    for place, one in enumerate(found.differences.each):
        lines += _describe_two(result, place, one)
    if len(found.differences.each) > 1:
        each = found.differences
        lines.append(f"that all releases have one network: {describe_tests(each.largest, each.squares)}")
    return "\n".join([*lines, describe_files(folder)])


def describe_releases(bundles: Sequence[Bundle], names: Sequence[str], found: Comparison | Joint) -> list[str]:
    """Return the lines on each release, and on all: what was left out, and notes.

    They say who signed it, what it promises, unless the last did too, and how many rows it is worth.
    """
    lines, last = list[str](), list[str]()
    for name, bundle, rows in zip(names, bundles, found.effective_rows, strict=True):
        about = "" if counts_rows(bundle) else "about "
        promise = [describe_guarantee(bundle.release)[0], *describe_several(bundle.release.guarantee)]
        lines += [
            f"{quote_path(bundle.path)}: release {bundle.release.lineage.number} of "
            f"{quote_name(bundle.release.dataset.name)}, signed by {quote_name(bundle.signer.name)}, verified"
            f"{'; it promises the same' if promise == last else ''}",
            *(f"  {said}" for said in promise if promise != last),
            f"  {about}{bundle.release.n_rows} rows, whose correlations are as precise as those of {rows:.0f} "
            f"Gaussian rows without noise{'; below, it is ' + quote_name(name) if name.endswith(')') else ''}",
        ]
        last = promise
    return [*lines, *(f"  {sentence}" for sentence in (*describe_left_out(found.left_out, names), *found.notes))]


def describe_left_out(left: Mapping[str, Sequence[int]], names: Sequence[str]) -> list[str]:
    """Return a sentence on the columns that cannot be compared."""
    shown = [
        f"{quote_name(name)} ({', '.join(names[place] for place in where) or 'in part in each'})"
        for name, where in left.items()
    ]
    return [f"left out, as the noise of a release drowns them: {and_more(shown, _NAMED)}"] if left else []


def _describe_two(result: ComparisonResult, place: int, one: Difference) -> list[str]:
    """Return the lines on two releases: the tests of all pairs, and the pairs that differ."""
    found, names = result.found, result.names
    n_found = result.n_different(place)
    n_pairs = int(np.count_nonzero(found.differences.is_comparable))
    lines = [
        f"{quote_name(names[one.second])} less {quote_name(names[one.first])}:",
        f"  test that the networks are the same: {describe_tests(one.largest, one.squares)}",
        f"  {n_found} of {n_pairs} pairs differ{'s' * (n_found == 1)} at a false discovery rate of {found.fdr:g}"
        + (f"; differences of partial correlations, with {100 * found.confidence:g} % intervals:" if n_found else ""),
    ]
    z = normal_quantile((1.0 + found.confidence) / 2.0)
    order = np.argsort(-np.nan_to_num(np.abs(one.difference / one.standard_error), nan=-1.0), kind="stable")
    for pair in order[: min(n_found, _SHOWN)].tolist():
        ends = [found.nodes[int(side[pair])] for side in found.differences.pairs]
        values = [found.differences.estimates[which].value[pair] for which in (one.first, one.second)]
        lines.append(describe_pair(ends, values, one.difference[pair], z * one.standard_error[pair]))
    if n_found > _SHOWN:
        lines.append(f"    {counted(n_found - _SHOWN, 'more pair')}: see differences.csv")
    q_values = np.nan_to_num(found.differences.strength_q_values[place], nan=1.0)
    stronger = [node for node in np.argsort(q_values, kind="stable").tolist() if q_values[node] <= found.fdr]
    if stronger:
        said = [
            f"{quote_name(found.nodes[node])} {_describe_change(one.strength[node], z * one.strength_error[node])}"
            for node in stronger
        ]
        lines.append(f"  columns whose strength differs, over the links of both: {and_more(said, _SHOWN)}")
    return lines


def describe_pair(ends: Sequence[str], values: Sequence[float], change: float, margin: float) -> str:
    """Return the line on a pair that differs: by how much, with the margin of its interval, and from what to what."""
    first, second = map(describe_number, values)
    return f"    {_describe_change(change, margin)}  {' -- '.join(map(quote_name, ends))}  ({first}, then {second})"


def _describe_change(change: float, margin: float) -> str:
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
