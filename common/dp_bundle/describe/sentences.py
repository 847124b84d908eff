"""Sentences about a release for a person: size, noise, guarantee, the cost of all releases, and what one could guess.

The sentences are ours, and whatever in them is the signer's text is shown as a quotation.

Columns of the table that were no numbers have a sentence for what is published of them, and each of these a phrase.
"""

import datetime
import math
from collections.abc import Collection, Iterable, Sequence

from dp_bundle.base.quoting import and_more, counted, percent_at_most, quote, quote_name, round_up
from dp_bundle.manifest.columns import SOURCE_KINDS, Column, Source, source_names
from dp_bundle.manifest.costs import cost_of_several, sound_mu
from dp_bundle.manifest.guarantee import (
    NUMBER_PUBLIC,
    ORDER_PUBLIC,
    TOGETHER_PUBLIC,
    Cumulative,
    Discovery,
    Guarantee,
)
from dp_bundle.manifest.matrix_noise import Margins, NoisyMatrix, SecondMoments
from dp_bundle.manifest.noise import normal_tail
from dp_bundle.manifest.release import MARGINS_NAME, TRANSFORM_NAME, Release

SEVERAL_CELLS = (
    "Someone who is counted in several cells is protected less: in k cells at k times the rho, which is sqrt(k) times "
    "the mu (in 10 cells 3.2 times)."
)
REPLACEMENT = (
    "The books count a replacement, which is one removal and one addition: it costs sqrt(2) times the mu, and twice "
    "the epsilon, of either alone."
)
_KNOWN_PUBLIC = {ORDER_PUBLIC, NUMBER_PUBLIC, TOGETHER_PUBLIC}
_ROWS_TOGETHER = 10  # of a person, whose protection is stated for an example
_NAMED = 8  # so many columns are named in a sentence


def describe_noise(column: Column) -> str:
    """Return one phrase that says which noise a column carries."""
    if column.response is not None:
        same, other = column.response.p_same, column.response.p_other
        which = "the other" if column.response.n_levels == 2 else "each other one"
        return f"randomised response, a level stays with probability {same:.6g} and becomes {which} with {other:.6g}"
    noise = column.cell_noise
    if noise.distribution == "discrete-gaussian":
        return f"discrete Gaussian, sigma {noise.sigma:.6g}, variance {noise.variance:.6g}"
    return f"Gaussian, sigma {noise.sigma:.6g}, on a grid of {noise.granularity:.6g}, variance {noise.variance:.6g}"


def describe_bounds(column: Column, clip: float | None = None) -> str:
    """Return one phrase that says what a column's values were clipped to, and how that was obtained.

    Parameters
    ----------
    column : Column
        The column.
    clip : float, optional
        The `column_clip` of a release of two rounds.
    """
    if column.standards:
        first, second = column.standards
        away = first.scale * (clip or 1.0)
        within = "" if column.bounds is None else f" in {column.bounds[0]:g} to {column.bounds[1]:g}"
        found = f" (found privately{within})" if column.standard_obtained == "private-quantiles" else ""
        kept = (
            f"at most {away:.6g} from the center {first.center:g}{found}; scale {first.scale:g}, "
            f"then center {second.center:g} and scale {second.scale:g} in round 2"
        )
        return kept if column.transform is None else f"normal scores of the values x{within}: {kept}"
    if column.bounds is None:
        return "not clipped"
    found = " (found privately)" if column.bounds_found else ""
    change = "" if column.max_change is None else f", protected are changes by up to {column.max_change:g}"
    return f"{column.bounds[0]:g} to {column.bounds[1]:g}{found}{change}"


def describe_scale(columns: Sequence[Column]) -> list[str]:
    """Return a sentence on the columns with normal scores, and on what is not known of them; or none."""
    scored = source_names([column for column in columns if column.transform is not None])
    if not scored:
        return []
    others = " with them" if any(column.has_values and column.block is None for column in columns) else ""
    return [
        f"In the matrices, values of {_named(scored)} stand as normal scores: the standard normal quantile of the "
        f"middle rank of their cell in the column's histogram. Correlations and links{others} are between scores, "
        "which keep who is above whom, and not by how much."
    ]


def describe_gaps(release: Release, *, in_file: bool = False, columns: Collection[str] | None = None) -> list[str]:
    """Return sentences that say what became of cells without a value, and what that does to estimates.

    Parameters
    ----------
    release : Release
        The release.
    in_file : bool
        In the words of the bundle's own README, which names every column of a category (see `describe_size`).
    columns : collection of str, optional
        Those that an estimate is of, where it may leave out some that indicate gaps.
    """
    names: dict[str, list[str]] = {}
    left_out = {source.name for source in release.sources if columns is not None and source.columns[-1] not in columns}
    for column in (each for each in release.columns if each.missing != "indicator" or each.block not in left_out):
        how = "standard" if (column.missing, column.bounds) == ("midpoint", None) else column.missing
        names.setdefault(how, []).append(column.name if in_file else column.source_name)
    names = {how: list(dict.fromkeys(each)) for how, each in names.items()}
    many = (
        "where there are many, that links columns with gaps in the same rows, and dilutes true links"
        f"{', and no' if in_file else '. No'} p-value or interval knows of it."
    )
    if_any = "" if in_file else ", if any,"  # which READMEs of older bundles do not say
    filled = "their column's center of round 1" if release.columns[0].standards else "the middle of the bounds"
    sentences = {
        "midpoint": f"Cells without a value{if_any} in {{}} took the middle of the bounds: {many}",
        "standard": f"Cells without a value, if any, in {{}} took their column's center of round 1: {many}",
        "indicator": f"Cells without a value in {{}} took {filled}, and a column beside each says so: "
        "estimates tell gaps from values, and link what lies on both sides of a column with many gaps.",
        "drop": "Rows without a value in {} were left out, which changes nothing if gaps do not depend on the values.",
    }
    return [text.format(_named(names[how])) for how, text in sentences.items() if how in names]


def describe_discovery(release: Release, *, in_file: bool = False) -> list[str]:
    """Return sentences on what was found of the columns before the release, and by which noise; or none."""
    found, guarantee = release.discovery, release.guarantee
    if found is None:
        return []
    said = [
        "Nothing was declared of the columns. What they are was found privately, from "
        f"{found.n_rows:,} rows, with mu = {round_up(guarantee.discovery_mu, 3)} of the guarantee: every count of "
        "cells of one look, or without a value, has Gaussian noise of standard deviation "
        f"{found.counts_sigma:.4g}."
    ]
    if found.kinds:
        said.append(
            f"A column of a text file holds what most of its cells look like{', and in' if in_file else '. In'} one of "
            f"numbers or dates any other cell is a gap. So found: {_named([*found.kinds])}."
        )
    if found.levels and found.levels_sigma is not None and found.threshold is not None:
        said.append(
            f"A value is a level only if its number, with noise of standard deviation {found.levels_sigma:.4g}, is at "
            f"least {found.threshold:g}. So found: {_named([*found.levels])}."
        )
    return said


def _named(names: list[str]) -> str:
    return and_more([quote_name(name) for name in names], _NAMED)


def describe_moments(moments: SecondMoments | None, columns: Sequence[Column], *, in_file: bool = False) -> list[str]:
    """Return sentences that say what the matrix of a covariance release is, and which noise is on it; none of rows.

    Parameters
    ----------
    moments : SecondMoments or None
        What the manifest says of the matrix.
    columns : sequence of Column
        The release's, which may be on a scale of their own.
    in_file : bool
        As of `describe_size`.
    """
    if moments is None:
        return []
    if moments.first_round is not None:
        rounds = _describe_rounds(moments, moments.first_round, columns, in_file=in_file)
        return [*describe_margins(moments.margins, columns), *describe_scale(columns), *rounds]
    held = (
        "A row is (z, c) with z_j = (x_j - center_j) / half_width_j from its column's bounds, shortened to a length "
        f"of {moments.radius:.6g} where it is longer, and the constant c = {moments.constant:g}."
    )
    if moments.distribution is None:
        said = f"The noise of the {moments.mechanism} mechanism does not act entry by entry"
        on, beside = moments.estimated_diagonal_error, moments.estimated_off_diagonal_error
        if on is None or beside is None:
            return [held, f"{said}."]
        errors = f"{on:.3g} on the diagonal and {beside:.3g} beside it"
        return [held, f"{said}; errors are about {errors}, as the publisher estimates them."]
    noise = f"{moments.noise.label} noise ({moments.mechanism}): {_size_of_noise(moments)}"
    return [held, f"{noise}, with a mean of {moments.bias:.6g} on the diagonal." if moments.bias else f"{noise}."]


def describe_margins(margins: Margins | None, columns: Sequence[Column]) -> list[str]:
    """Return a sentence on the histograms of a release; or none."""
    if margins is None:
        return []
    n_raw, has_gaps = len(source_names(columns)), any(column.has_gap_cell for column in columns)
    gaps = " Rows without a value are in a cell of their own." * has_gaps
    return [
        f"Histograms: {MARGINS_NAME} has the number of rows in each cell of {counted(n_raw, 'column')} of the table."
        f"{gaps} Every number has Gaussian noise of standard deviation {margins.sigma:.6g}, rounded to whole numbers "
        f"(variance {margins.variance:.6g})."
    ]


def _describe_rounds(
    moments: SecondMoments, first: NoisyMatrix, columns: Sequence[Column], *, in_file: bool
) -> list[str]:
    """Return the sentences of a release of two rounds."""
    scored = [not column.has_values for column in columns if column.block is None]
    what = ("scores" if all(scored) else "values and scores") if any(scored) else "values"
    made = "release was" if moments.margins is None else "matrices were"
    clipped = f"{moments.column_clip:.6g} scales of round 1 on either side of their column's center"
    if not in_file:
        clipped = f"a range about their center, of {moments.column_clip:.6g} times round 1's scale on either side"
    first_row = (
        "a row is (u, c) with u_j = (x_j - center_j) / scale_j, shortened to a length of "
        f"{first.radius:.6g} where it is longer, and the constant c = {first.constant:g}"
    )
    second_row = (
        "a row is (B u, c) with u from the centers and scales of round 2 and the symmetric matrix B of "
        f"{TRANSFORM_NAME}, shortened to a length of {moments.radius:.6g}, and c = {moments.constant:g}"
    )
    if not in_file:
        longest = "; where it is longer than {:.6g}, it is shortened to that"
        first_row = f"a row is (u, c) with u_j = (x_j - center_j) / scale_j and the constant c = {first.constant:g}"
        first_row += longest.format(first.radius)
        second_row = f"a row is (B u, c), with c = {moments.constant:g}{longest.format(moments.radius)}; u has the "
        second_row += f"centers and scales of round 2, and B is the symmetric matrix of {TRANSFORM_NAME}"
    return [
        f"{what.capitalize()} were clipped to {clipped}. The {made} made in two rounds, which learning combines.",
        f"Round 1: {first_row}; {first.noise.label} noise of {_size_of_noise(first)}.",
        f"Round 2: {second_row}; {moments.noise.label} noise of {_size_of_noise(moments)}.",
        f"Rows{',' if ' and ' in what else ' and'} {what} far from the center were shortened, so that variances come "
        "out low; correlations are what this release is for.",
    ]


def _size_of_noise(matrix: NoisyMatrix) -> str:
    return (
        f"variance {matrix.diagonal_variance:.6g} on the diagonal and {matrix.off_diagonal_variance:.6g} beside it, "
        f"on a grid of {matrix.granularity:.6g}"
    )


def describe_size(release: Release, *, in_file: bool = False) -> str:
    """Return one phrase that says how large the release is.

    Parameters
    ----------
    release : Release
        The release.
    in_file : bool
        In the words of the bundle's own descriptions, which the manifest determines to the byte: they never change.
    """
    n_columns = len(release.columns)
    columns = f"{n_columns} columns" if in_file else count_columns(n_columns, len(source_names(release.columns)))
    rows = f"{release.n_rows} rows" if in_file or release.n_rows != 1 else "1 row"
    if release.second_moments is None:
        return f"{rows}, {columns}"
    about = "" if release.guarantee.neighbours.n_rows_public else "about (a noisy estimate) "
    if release.margins is not None:
        link = ", and" if in_file else ";"
        return f"a histogram of each column{link} how {columns} go together (second moments), over {rows}; no rows"
    return f"second moments of {columns}, over {about}{rows}; no rows"


def count_columns(n_published: int, n_raw: int) -> str:
    """Return a number of published columns, and of the raw table's where a category of it has several."""
    return counted(n_published, "column") + (f" (for {n_raw} of the table)" if n_raw < n_published else "")


def describe_guarantee(release: Release, *, in_file: bool = False) -> list[str]:
    """Return sentences that say what the release guarantees, and what it does not; `in_file` as for `describe_size`.

    A manifest states no mu of discrete noise, which follows from the columns. Machines may differ in its last digit,
    which is why files do not have it.
    """
    guarantee = release.guarantee
    strengths = [f"rho = {round_up(guarantee.rho)} (zero-concentrated differential privacy)"]
    if guarantee.mu is not None or not in_file:
        strengths.insert(0, f"mu = {round_up(sound_mu(guarantee, release.columns))} (Gaussian differential privacy)")
    if guarantee.epsilon is not None:
        pure = "" if guarantee.excepted_delta else "pure "
        strengths.insert(0, f"epsilon = {round_up(guarantee.epsilon)} ({pure}differential privacy)")

    bounded = "" if release.columns[0].standards else " within the bounds"
    change = f"{_change(guarantee, release.columns)}{bounded} changes the release by at most"
    lines = [f"{change}{'' if in_file else ':'} {', '.join(strengths)}."]
    if guarantee.excepted_delta:
        lines.append(f"All of that holds except with a probability of {round_up(guarantee.excepted_delta)}.")
    if guarantee.epsilon_delta:
        points = "; ".join(
            f"epsilon = {round_up(point.epsilon, 4)} at delta = {round_up(point.delta)}"
            for point in guarantee.epsilon_delta
        )
        lines.append(f"That is (epsilon, delta)-differential privacy with {points}.")

    lines += describe_several(guarantee)
    if not guarantee.neighbours.n_rows_public:
        lines.append("The number of rows is protected as well: what is stated of it was read from the noisy release.")
    if guarantee.public:
        named = [fact if fact in _KNOWN_PUBLIC else quote(fact) for fact in guarantee.public]
        lines.append(f"Not protected: {', '.join(named)}.")
    return lines


def describe_promise(release: Release) -> list[str]:
    """Return the sentences of `describe_guarantee` that promise; what is not protected, `describe_unprotected` says."""
    several = describe_several(release.guarantee)
    said = describe_guarantee(release)
    return [text for text in said if text not in several and not text.startswith("Not protected:")]


def describe_several(guarantee: Guarantee) -> list[str]:
    """Return a sentence on people who are in several cells where one change of one cell is protected; else nothing.

    Nothing is found privately of such releases, and noise on different cells is independent. So the cost is that of
    `cost_of_several`: mu^2 and rho add up.
    """
    return [SEVERAL_CELLS] if guarantee.unit == "change" else []


def describe_unprotected(
    guarantee: Guarantee, kind: str, columns: Sequence[Column] = (), discovery: Discovery | None = None
) -> list[str]:
    """Return sentences that say what no guarantee of this kind protects: all of them, wherever they are shown.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    kind : str
        "rows" or "covariance".
    columns : sequence of Column
        Those of a release, by which it is said what is left for a person with several rows; none of a plan.
    discovery : Discovery, optional
        What was found of its columns before.
    """
    facts = [fact if fact in _KNOWN_PUBLIC else quote(fact) for fact in guarantee.public]
    unit = "If a person has several rows, each of them is protected as stated, but not all of them together."
    if columns:
        unit = f"{unit.removesuffix('.')}: {_describe_rows_together(guarantee, columns, discovery)}."
    if guarantee.unit == "entity":
        unit = f"Rows of one {quote(guarantee.entity or '')} beyond {guarantee.max_rows} are left out of the release."
    elif guarantee.unit == "change":
        (unit,) = describe_several(guarantee)
    elif guarantee.unit == "cell" and kind == "rows":
        unit = "Each cell of a row is protected as stated, but not the whole row."
    return [
        *(f"{fact[0].upper()}{fact[1:]}." for fact in facts),
        unit,
        "What follows from everybody’s rows together: that smokers fall ill more often is learned about every smoker, "
        "in the table or not.",
        "What other publications about the same people reveal: this publisher’s ledger adds up one dataset’s releases.",
        "What a publisher does otherwise than she says: the signature proves who promises, not that it is true.",
    ]


def _describe_rows_together(guarantee: Guarantee, columns: Sequence[Column], discovery: Discovery | None) -> str:
    """Return what protects a person with so many rows that it is to be seen how protection falls off."""
    cost = cost_of_several(guarantee, columns, _ROWS_TOGETHER, discovery)
    if cost.excepted_delta >= 1:
        return f"{_ROWS_TOGETHER} rows together are promised nothing"
    but = f", except with a probability of {round_up(cost.excepted_delta)}" if cost.excepted_delta else ""
    strength = f"mu = {round_up(cost.mu)}" if cost.epsilon is None else f"epsilon = {round_up(cost.epsilon)}"
    return f"{_ROWS_TOGETHER} rows together are protected at {strength}{but}"


def _change(guarantee: Guarantee, columns: Sequence[Column]) -> str:
    """Return what the guarantee says makes little difference."""
    one = f"all rows of one {quote(guarantee.entity or '')}, at most {guarantee.max_rows} of them,"
    if not guarantee.neighbours.n_rows_public:
        return f"Adding or removing {one if guarantee.unit == 'entity' else 'one row'}"
    if guarantee.unit == "entity":
        return f"Replacing the content of {one}"
    if guarantee.unit == "change":
        limits = {column.max_change for column in columns}
        if len(limits) == 1:
            return f"Changing one cell by at most {max(limit or 0 for limit in limits):g}"
        return "Changing one cell by at most what its column states, or to any value where it states nothing,"
    return f"Replacing one {guarantee.unit} by any other"


def _no_total(total: Cumulative) -> str:
    """Return why there is no total in a release's unit of privacy; there may be one in others."""
    if total.releases == 1:
        return "no guarantee covers it"
    if total.excepted_delta >= 1:
        return "no guarantee covers all of them, as what each excepts adds up to everything"
    unit = quote_name(total.unit)
    return f"at least one of them guarantees nothing per {unit}, so that there is no total per {unit}"


def describe_total(release: Release, *, in_file: bool = False) -> str:
    """Return one sentence about the cost of all releases of the dataset so far; `in_file` as for `describe_size`."""
    total = release.cumulative
    releases = f"{total.releases} release(s)" if in_file else counted(total.releases, "release")
    cost = "cost" if in_file or total.releases != 1 else "costs"
    part = f" (this one is partition {quote(release.lineage.partition)})" if release.lineage.partition else ""
    if total.rho is None:
        return f"{releases} of this dataset{part}: {_no_total(total)}."
    costs = {total.unit: total.rho, **total.other_units_rho}
    spent = [f"rho = {round_up(rho)} per {quote_name(unit)}" for unit, rho in costs.items()]
    mu = "" if total.mu is None else f"mu = {round_up(total.mu)}, "
    but = f", except with a probability of {round_up(total.excepted_delta)}" if total.excepted_delta else ""
    said = f"{releases} of this dataset{part} {cost} {mu}{'; '.join(spent)} in all{but}."
    return said if release.guarantee.neighbours.n_rows_public else f"{said} {REPLACEMENT}"


_KNOWN = {
    "cell": "the whole table but one cell, and two values for it",
    "change": "the whole table, but not whether one cell counts one person",
    "row": "all rows but one, and two candidates for it",
    "entity": "all rows but those of one {}, and two sets for these",
}


def chance_of_guess(guarantee: Guarantee, columns: Sequence[Column]) -> float:
    """Return the most that the probability of a right guess can be, of two possibilities as likely as each other.

    It is the least of what is implied: ``Phi(mu / 2)``, and ``(e^epsilon + delta) / (1 + e^epsilon)``. As the
    Kullback-Leibler divergence is at most rho, ``(1 + sqrt(1 - e^-rho)) / 2`` and ``(1 + sqrt(rho / 2)) / 2`` are, too.
    Where noise is discrete, mu follows from the release's columns, though the guarantee does not state it.

    References
    ----------
    Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), section 2. Kairouz, Oh & Viswanath (2015), The
    composition theorem for differential privacy, theorem 2.1. Bun & Steinke (2016), Concentrated differential privacy,
    definition 1.1. Tsybakov (2009), Introduction to Nonparametric Estimation, lemmas 2.5 (Pinsker) and 2.6.
    """
    points = [(point.epsilon, point.delta) for point in guarantee.epsilon_delta]
    if guarantee.epsilon is not None:
        points.append((guarantee.epsilon, 0.0))
    chances = [1.0 - (1.0 - delta) / (1.0 + math.exp(min(epsilon, 700.0))) for epsilon, delta in points]
    chances.append(_implied(sound_mu(guarantee, columns), guarantee.rho))
    return min(1.0, min(chances) + guarantee.excepted_delta)


def chance_in_all(total: Cumulative) -> float | None:
    """Return the same for somebody who has all releases of the dataset so far; None without a guarantee in all."""
    return None if total.rho is None else min(1.0, _implied(total.mu, total.rho) + total.excepted_delta)


def describe_guess(guarantee: Guarantee, columns: Sequence[Column]) -> str:
    """Return what somebody could learn of one protected unit, never too little, in two sentences."""
    known = _KNOWN[guarantee.unit].format(f"“{guarantee.entity}”")
    if not guarantee.neighbours.n_rows_public:
        known = "all other rows, and that one more may be there or not"
        if guarantee.unit == "entity":
            known = f"all rows but those that one “{guarantee.entity}” has or has not"
    chance = chance_of_guess(guarantee, columns)
    return f"{_guesses(known, chance)} after seeing this release, in place of 50 %."


def describe_guess_in_all(total: Cumulative) -> str:
    """Return what somebody could learn from all releases of the dataset so far, together, in two sentences."""
    chance, (unit, _, entity) = chance_in_all(total), total.unit.partition(":")
    if chance is None:
        return "Somebody who has all of these releases may guess right every time."
    seen = "its one release so far" if total.releases == 1 else f"all {counted(total.releases, 'release')} so far"
    return f"{_guesses(_KNOWN[unit].format(f'“{entity}”'), chance)} after seeing {seen}, in place of 50 %."


def _guesses(known: str, chance: float) -> str:
    often = percent_at_most(chance)
    return f"Somebody knows {known}, each as likely as the other. She guesses right in at most {often} of cases"


def of_hundred(chance: float) -> int:
    """Return how many of a hundred guesses are right on average, at most: as a whole number, never too few."""
    return math.ceil(100.0 * chance - 1e-9)


def describe_hundred(chance: float, *, in_all: bool = False) -> str:
    """Return one sentence that says the same of a hundred guesses; `in_all` of those with all releases."""
    seen, right = " with all releases" if in_all else "", of_hundred(chance)
    most = f"at most {right} are right on average" if right < 100 else "all may be right"
    return f"Of 100 such guesses{seen}, {most}; by chance alone it would be 50."


def _implied(mu: float | None, rho: float) -> float:
    """Return the chance that rho implies, or mu where it is known."""
    distance = min(math.sqrt(rho / 2.0), math.sqrt(-math.expm1(-rho)))
    return min(0.5 + 0.5 * distance, 1.0 if mu is None else 1.0 - normal_tail(mu / 2.0))


_START = datetime.datetime(1970, 1, 1)  # as published: without a zone


def describe_sources(release: Release, *, in_file: bool = False) -> list[str]:
    """Return a sentence for every column of the raw table that was no number, on what is published for it."""
    by_name = {column.name: column for column in release.columns}
    return [
        f"{quote_name(source.name)} is {_what(source)}{_range(source, by_name[source.columns[0]])}"
        f"{_beside(source, in_file=in_file)}."
        for source in release.sources
    ]


def column_meanings(release: Release) -> dict[str, str]:
    """Return a sentence for every published column that stands for something else than its number."""
    by_name = {column.name: column for column in release.columns}
    found: dict[str, str] = {}
    for source in release.sources:
        first = source.columns[0]
        if source.has_level_columns:
            own = zip(source.columns, source.levels, strict=True)
            name = quote_name(source.name)
            found |= {column: f"1 where {name} is {quote_name(level)}, otherwise 0." for column, level in own}
        elif source.kind != "number":
            found[first] = f"Stands for {_what(source)}{_range(source, by_name[first])}."
        if source.has_gap_column:
            found[source.columns[1]] = f"1 where {quote_name(source.name)} had no value, otherwise 0."
    return found


def raw_meanings(release: Release) -> dict[str, str]:
    """Return a sentence for every column of the raw table on what its numbers stand for, or nothing for plain ones."""
    by_name = {column.name: column for column in release.columns}
    found = {column.source_name: "" for column in release.columns}
    for source in release.sources:
        if source.has_level_columns:
            found[source.name] = f"A category of {counted(len(source.levels), 'level')}{_counted(source)}."
        elif source.kind == "ordered":
            found[source.name] = f"{counted(len(source.levels), 'level')} in their order, counted from 0."
        elif source.kind != "number":
            what = f"{_what(source)}{_range(source, by_name[source.columns[0]])}."
            found[source.name] = what[:1].upper() + what[1:]
    return found


def first_columns(columns: Iterable[Column]) -> dict[str, tuple[Column, int]]:
    """Return the first published column of every column of the raw table, by its name, and how many it has.

    The columns of a category are alike, and need to be described once; not so a number and the indicator of its gaps.
    """
    found: dict[str, tuple[Column, int]] = {}
    for column in columns:
        first, number = found.get(column.source_name, (column, 0))
        if first.missing == "indicator":
            found[column.name] = column, 1
        else:
            found[column.source_name] = first, number + 1
    return found


def _what(source: Source) -> str:
    levels = [quote_name(level) for level in source.levels]
    if source.has_level_columns:
        return f"a category, with a column of 0 and 1 for each of its levels: {', '.join(levels)}{_counted(source)}"
    what = SOURCE_KINDS[source.kind].meaning
    if source.kind == "ordered":
        return f"{what}: {', '.join(levels)}"
    return f"{what}: 0 is {levels[0]}, 1 is {levels[1]}{_counted(source)}" if levels else what


def _range(source: Source, column: Column) -> str:
    """Return the bounds of a date or a time, as people write it; nothing where no calendar has them."""
    if column.bounds is None or source.kind not in ("date", "time"):
        return ""
    days = [bound if source.kind == "date" else bound / 86_400 for bound in column.bounds]
    try:
        low, high = (_START + datetime.timedelta(days=each) for each in days)
    except OverflowError:
        return ""
    spell = datetime.datetime.isoformat if source.kind == "time" else lambda moment: moment.date().isoformat()
    return f", from {spell(low)} to {spell(high)}"


def _beside(source: Source, *, in_file: bool) -> str:
    if not source.has_gap_column:
        return ""
    if not in_file:
        return f". The column {quote_name(source.columns[1])} is 1 where there was no value, and else 0"
    return f", with a column beside it, {quote_name(source.columns[1])}, that is 1 where there was no value, and else 0"


def _counted(source: Source) -> str:
    other = f"; every value that is not listed counts as {quote_name(source.other)}" if source.other else ""
    gaps = f"; a missing value counts as {quote_name(source.gaps)}" if source.gaps else ""
    return other + gaps
