"""Every figure on privacy in what is printed, read from the words: a figure in words that nobody knows is an error.

What a sentence claims is taken out of the text, piece by piece, by regular expressions; what claims nothing is taken
out by others. Whatever is left must have no digit, so that a new sentence with a figure cannot go unchecked.
"""

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

N = r"(\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)"
_NO = N.replace("(", "(?:", 1)
UNIT = r"(cell|row|change|\"?entity:\w+\"?)"
_TOTAL = re.compile(
    rf"\d+ releases?(?:\(s\))? of this dataset(?: \(this one is partition \S+\))? costs? (?:mu = {N}, )?"
    rf"((?:rho = {_NO} per {UNIT.replace('(', '(?:', 1)}(?:; )?)+) in all(?:, except with a probability of {N})?\."
)
_RHO = re.compile(rf"rho = {N} per {UNIT}")
_SPENT = re.compile(rf"(?:The budget is |, )mu = {_NO} per {UNIT} \(mu = {N} so far\)\.?")
_ACCOUNT = re.compile(rf"(?m)^account: .*, mu = {N} per (\w+) in all(?:, of a budget of {_NO})?$")
_WEAK = re.compile(rf"This is weak: at mu = {N} it would be {N} %\.")
_HUNDRED = re.compile(
    rf"Of 100 such guesses( with all releases)?, (?:at most {N} are right on average|all may be right); by chance "
    r"alone it would be 50\."
)
_SEVERAL = re.compile(
    r"Someone who is counted in several cells is protected less: in k cells at k times the rho, which is "
    rf"sqrt\(k\) times the mu \(in {N} cells {N} times\)\."
)
_REPLACEMENT = re.compile(r"The books count a replacement, which is one removal and one addition: it costs ([^.]*)\.")
_TOGETHER = re.compile(
    rf"(\d+) rows together are protected at (mu|epsilon) = {N}(?:, except with a probability of {N})?\."
    r"|\d+ rows together are promised nothing\."
)
_IN_ALL = re.compile(
    rf"guesses right in at most {N} % of cases after seeing (?:its one release|all \d+ releases) so far, in place of "
    r"50 %\."
)
_GUESS = re.compile(rf"guesses right in at most {N} % of cases after seeing this release, in place of 50 %\.")
_CONDITIONAL = re.compile(rf"Had the same noise been fixed beforehand, one cell would be protected at mu = {N}\.")
_POINT = re.compile(rf"epsilon = {N} at delta = {N}")
_EXCEPTED = re.compile(rf"All of that holds except with a probability of {N}\.")
_EXCEPTED_AS_CHOSEN = re.compile(rf"its guarantee holds except with a probability of {N}")
_OWN = {
    "mu": re.compile(rf"mu = {N} \(Gaussian differential privacy\)"),
    "rho": re.compile(rf"rho = {N} \(zero-concentrated differential privacy\)"),
    "epsilon": re.compile(rf"epsilon = {N} \((?:pure )?differential privacy\)"),
}
_NEUTRAL = [
    re.compile(pattern)
    for pattern in (
        r"Cells without a value in .* took their column's center of round 1.*$",
        r"Where no column says so, at most .* have no value.*$",
        r"^\s*\S+ has the smallest expected error for .* columns: .*, rows being in the unit ball, against [^;]*",
        r"sha256:[0-9a-f]{64}|sha256sum",
        r"^\s+[\d,]+ (?:cells?|entity|entities) .*$|^\s+[\d,]+ rows? (?:shortened|left out|whole).*$",
        r"(?:in )?\"?(?:days|seconds) since [-\dT:]+Z?(?:, from [-\d:T]+ to [-\d:T]+)?",
        r"\(\d+ columns\)|\(for \d+ of the table\)",
        r"^wrote \S+: release \d+ of \S+,",
        r"(?m)^# Release \d+ of .*$|^- Made: .*$|^\s*signer .*$|^\s*dataset .*$|^\S*: every byte is as it was signed",
        rf"(?:about \(a noisy estimate\) )?{_NO} rows?\b(?:, \d+ columns?)?(?:; no rows)?"
        r"(?: \(for \d+ of the table\))?",
        r"second moments of \d+ columns?|\d+ columns? \(for \d+ of the table\)|, \d+ columns?|of \d+ columns?",
        r"\d+ Parquet file\(s\)",
        rf"discrete Gaussian, sigma {_NO}, variance {_NO}|Gaussian, sigma {_NO}, on a grid of {_NO}, variance {_NO}",
        rf"randomised response, a level stays with probability {_NO} and becomes (?:the|each) other(?: one)? with "
        rf"{_NO}",
        rf"-?{_NO} to -?{_NO}(?: \(found privately\))?(?:, protected are changes by up to {_NO})?",
        rf"rows within {_NO} scales of their centre; here centre -?{_NO}, scale {_NO}",
        rf"at most {_NO} from the center -?{_NO}(?: \(found privately(?: in -?{_NO} to -?{_NO})?\))?; scale {_NO}, "
        rf"then center -?{_NO} and scale {_NO} in round 2",
        rf"(?:found privately, with noise|; declared|Changing one cell by at most {_NO})",
        r"(?:at most |beyond )\d+ (?:of them|are left out)",
        r"A row is \(z, c\).*$|(?:Gaussian|Laplace|Wishart|Wishart difference) noise \(.*$|Values were clipped to .*$",
        r"Round [12]: .*$|The noise of the \S+ mechanism does not act entry by entry.*$|Rows and values far .*$",
        r"forecast: .*$|the noise leaves .*$|assumed: these bounds, found privately with \d+% of rho.*$",
        r"assumed, as no strength was given.*$|\S+ was chosen, .*$|^\S+ was chosen.*$",
        r"  \S+: more than 60 % of the values.*$|.*more than 60 % of the values seem.*$",
        rf"The budget is (?:mu = {_NO} per \S+?(?:, )?)+\.",
        r"(?m)^account: \S+, \d+ releases?$|stronger than about \S+, on a scale",
        r"(?:licence|to learn from it|left out|to use it|what to do now): .*$",
        r"^\s+\S+, (?:a page that says|by which the stock) .*$",
        r"^Release \d+ of the dataset \S+ was made with random noise on [-\d]+|^Of the table it shows .*$",
        r"Made with \"[^\"]*\"|ed25519:[0-9a-f]+|SHA-256 of the manifest: [0-9a-f]+",
        r"for your eyes only.*$",
        r"Histograms: .*$|Scores were clipped to .*$|how \d+ columns?\s+go together",
        rf"normal scores from -?{_NO} to -?{_NO}(?: of values)?",
        r"columns that \w+ by",
        r"Apache-2\.0",
        r"[xcdgo]\d+(?:=\w+)?|=v\d|level v?\d",
        r"is 1 (?:where|there)[^.]*|[01] is \S+|the place of its level, from 0",
        r"and \d+ more|0 and 1|0 or 1|in place of 50 %",
        r"\d+ release(?:s|\(s\))? of this dataset[^.]*(?:, without a guarantee in all|: no guarantee covers [^.]*"
        r"|: at least one of them guarantees nothing per [^.]*)\.",
    )
]


class Claim(NamedTuple):
    """One figure: what it is of, for whom, and where it was read.

    `scope` is "own" for the release's own unit, "own replaced" where one is put in the place of another; "all" and a
    unit, for all releases so far, "before" without this one, "booked" for this one alone; "cell" for one cell; "rows"
    and a number, for so many of the unit. A "point" has an epsilon and its `delta`; "power" and "miss" the rate of
    false alarms, "among" that of right guesses by chance, "odds" the share of exceptions.
    """

    kind: str
    value: float
    scope: str
    place: str
    delta: float = 0.0


class UnknownFigureError(AssertionError):
    """There is a figure in words that no expression here knows."""


def read_text(text: str, place: str) -> list[Claim]:
    """Return the claims of a text, line by line."""
    claims: list[Claim] = []
    for line in text.splitlines():
        claims += _read_line(line, place)
    return claims


def _read_line(line: str, place: str) -> Iterator[Claim]:
    rest = line

    def taken(pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
        nonlocal rest
        found = [match.groups() for match in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
        return found

    for mu, costs, excepted in taken(_TOTAL):
        units = [(number(rho), unit.strip('"')) for rho, unit in _RHO.findall(costs)]
        yield from (Claim("rho", rho, f"all {unit}", place) for rho, unit in units)
        if mu:
            yield Claim("mu", number(mu), f"all {units[0][1]}", place)
        yield Claim("excepted", number(excepted or "0"), f"all {units[0][1]}", place)
    for unit, mu in taken(_SPENT):
        own = unit.strip('"')
        yield Claim("mu", number(mu), f"all {own}", place)
    for mu, unit in taken(_ACCOUNT):
        own = unit if unit in ("cell", "row", "change") else f"entity:{unit}"
        yield Claim("mu", number(mu), f"all {own}", place)
    for mu, share in taken(_WEAK):
        yield Claim("right", number(share) / 100, f"mu {mu}", place)
    for several, right in taken(_HUNDRED):
        yield Claim("right", number(right or "100") / 100, "all" if several else "own", place)
    for k, times in taken(_SEVERAL):
        yield Claim("times", number(times), f"changes {k}", place)
    for (costs,) in taken(_REPLACEMENT):
        yield Claim("replacement", {"sqrt(2)": 2**0.5, "twice": 2.0}[costs.split(" ")[0]], costs, place)
    for k, kind, value, excepted in taken(_TOGETHER):
        if k:
            yield Claim(kind, number(value), f"rows {k}", place, number(excepted or "0"))
            yield Claim("excepted", number(excepted or "0"), f"rows {k}", place)
    yield from (Claim("right", number(share) / 100, "all", place) for (share,) in taken(_IN_ALL))
    yield from (Claim("right", number(share) / 100, "own", place) for (share,) in taken(_GUESS))
    yield from (Claim("mu", number(mu), "cell", place) for (mu,) in taken(_CONDITIONAL))
    yield from (Claim("point", number(epsilon), "own", place, number(delta)) for epsilon, delta in taken(_POINT))
    yield from (Claim("excepted", number(delta), "own", place) for (delta,) in taken(_EXCEPTED))
    yield from (Claim("excepted", number(delta), "own", place) for (delta,) in taken(_EXCEPTED_AS_CHOSEN))
    for kind, pattern in _OWN.items():
        yield from (Claim(kind, number(value), "own", place) for (value,) in taken(pattern))
    for pattern in _NEUTRAL:
        rest = pattern.sub(" ", rest)
    if re.search(r"\d", rest):
        raise UnknownFigureError(f"{place}: {rest.strip()!r} of {line!r}")


def number(text: str) -> float:
    """Return a number as it is printed."""
    return float(text.replace(",", ""))


def unescaped(markdown: str) -> str:
    """Return Markdown as it is shown."""
    return re.sub(r"\\([\\`*\[\]<>&|$~])", r"\1", markdown)


def shown(page: str) -> str:
    """Return the words of a page in HTML, without scripts and styles; a line for each block."""
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", " ", page)
    page = re.sub(r"</(?:p|li|td|th|dd|dt|h\d|tr|caption|div)>", "\n", page)
    return html.unescape(re.sub(r"<[^>]*>", "", page)).replace("\xa0", " ")


def read_numbers(document: dict[str, Any], place: str, unit: str) -> list[Claim]:
    """Return the claims of a manifest's or a label's numbers, by their names; a name that is not known is an error."""
    claims: list[Claim] = []
    for name, value in document.items():
        if name not in _FIELDS:
            raise UnknownFigureError(f"{place}: {name} = {value!r}")
        kind = _FIELDS[name]
        if value is None or not kind:
            continue
        if kind == "point":
            points = [tuple(each.values()) if isinstance(each, dict) else tuple(each) for each in value]
            claims += [Claim("point", epsilon, unit, place, delta) for epsilon, delta in points]
        elif kind == "units":
            claims += [Claim("rho", rho, f"all {other}", place) for other, rho in value.items()]
        else:
            claims.append(Claim(kind, value, unit, place))
    return claims


_FIELDS = {
    **{name: name for name in ("mu", "rho", "epsilon", "bounds_mu", "discovery_mu")},
    "excepted_delta": "excepted",
    "epsilon_delta": "point",
    "other_units_rho": "units",
    **dict.fromkeys(("unit", "entity", "max_rows", "neighbours", "accountant", "public", "releases", "guaranteed"), ""),
    **dict.fromkeys(("not_protected", "spent_so_far", "signer", "dataset", "budget_mu"), ""),
}
