"""The form's words: what its fields and their choices are called, and sentences of the commands said in these words.

The library speaks of a policy's entries, and the commands of options. A person at the form has neither before her.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dp_bundle.base.quoting import escape

KINDS = {
    "": "not declared: found privately, or as it is stored",
    "continuous": "numbers",
    "integer": "whole numbers",
    "boolean": "yes or no",
    "category": "words without an order",
    "ordered": "words in an order",
    "date": "dates",
    "time": "dates with times, or times of the day",
    "duration": "durations",
}
GAPS = {
    "": "not declared: found privately, or refused",
    "refuse": "are refused",
    "indicator": "are published, in a column beside it",
    "midpoint": "are set to the middle of the bounds",
    "center": "are moved to the means",
    "category": "are a level of their own",
    "other": "count as the level for all else",
    "drop": "leave out the whole row",
}
RELEASES = {
    "": "What shows most at this strength",
    "rows": "Noisy rows, which any tool reads",
    "covariance": "Second moments: how columns vary and go together",
}
UNITS = {
    "row": "One row is one person.",
    "entity": "Several rows may be one person’s:",
    "cell": "Single cells are protected, and no person as a whole.",
    "change": "Cells are counts, and a person is one case in one of them.",
}
ABOUT = {
    "title": "Title",
    "description": "Description",
    "creator": "Who made the data",
    "license": "Licence (SPDX), such as CC-BY-4.0",
    "contact": "Contact: an e-mail address, or a page",
    "url": "Page about the data",
    "citation": "How to cite it",
}
WRITTEN: dict[str, tuple[str, dict[str, str]]] = {
    "delimiter": (
        "Between cells",
        {"": "as the first line tells", ",": "a comma", ";": "a semicolon", "tab": "a tab", "|": "an upright bar"},
    ),
    "decimal": ("Decimal mark", {"": "as the numbers tell", ".": "a point, as in 1.5", ",": "a comma, as in 1,5"}),
    "encoding": (
        "Letters such as ä or é",
        {
            "": "as the first line tells",
            "utf-8": "UTF-8, as most programs write today",
            "cp1252": "Western European: Windows-1252, Latin-1",
            "cp1250": "Central European: Windows-1250",
            "utf-16": "UTF-16",
        },
    ),
    "header": (
        "The first line",
        {"": "names the columns, if it looks so", "first": "names the columns", "none": "is a row"},
    ),
}
LABELS: dict[str, tuple[str, Mapping[str, str]]] = {
    "kind": ("It holds", KINDS),
    "missing": ("Gaps", GAPS),
    "release": ("What is published", RELEASES),
    "unit": ("Who a person is", UNITS),
    "categories": ("The words that can occur", {}),
    "levels": ("The words that can occur", {}),
    "other": ("The level that counts all other words", {}),
    "format": ("How dates are written", {}),
    "bounds": ("Lowest and highest value", {}),
    "max_change": ("Cases of one person in a cell", {}),
    "max_rows": ("Rows of one person", {}),
    "entity": ("Whose a row is", {}),
    "license": ("Licence", {}),
    "missing_values": ("Words for a gap", {}),
    **WRITTEN,
}
_VALUE = r'(?:"[^"]*"|\d+(?![.\d])|\[[^\]]*\]|\.\.\.)'
_ENTRY = re.compile(rf"\b((?i:{'|'.join(LABELS)})) = ({_VALUE}(?:(?:,| or|, or) \"[^\"]*\")*)")
_DROP = r"drop = true(?: for (?:each|it|them|the column))?(?: in the policy)?(?: to leave (?:it|one) out)?"
_SAID = (  # of options, entries and commands, and what the form has in their place
    (
        r"pass --header none; if it has names, --header first \(or set header under \[table\] in the policy\)",
        'choose header = "none"; if it has names, header = "first"',
    ),
    (r"pass --header (first|none)", r'choose header = "\1"'),
    (r"(?:pass|publish (?:it )?all the same with) --anyway", "tick “Publish even what would be refused”"),
    (r"; see `dp-publish plan DATA` for other strengths", ""),
    (r",? ?\(?`dp-publish policy DATA` writes (?:one|a policy)\)?|, as `dp-publish policy DATA` does", ""),
    (r"write a policy with `dp-publish policy DATA`, (?:and )?fill in", "fill in"),
    (r"[Ss]et drop = true for some", "leave some out"),
    (r", or give it a kind in the policy|(?<=, )or a kind in the policy", "or say what it holds"),
    (r"give words a kind \([^)]*\)", "say of words that they are words"),
    (rf"set {_DROP}", "leave it out"),
    (rf"Set {_DROP}", "Leave it out"),
    (r'unit = \{ entity = "\.\.\.", max_rows = \.\.\. \}', "say above whose rows they are"),
    (r": budget_mu, in the policy, sets one", ""),
    (r"give license in the policy's \[dataset\]", "fill in “Licence”"),
    (r" \(--[^)]*\)", ""),
    (r"\b(set|in|change) (delimiter|decimal|encoding|header|kind)\b(?! =)", r"\1 “«\2»”"),
    (r"encoding under \[table\] in the policy", "“«encoding»”"),
    (r" under \[columns\.[^]]*\]", ""),
    (r" under \[table\](?: in the policy)?", " under “How the file is written”"),
    (r"in the column's section of the policy, ", ""),
    (r": in the policy, (?=give|say)", ": "),
    (r" in the policy\b", ""),
    (r"\b(max_change|max_rows|missing_values)\b(?! =)", r"“«\1»”"),
    (r"a text in quotes\b", "a text"),
)


def in_form(text: str) -> str:
    """Return a sentence of the library in the words of the form, without what is not printable."""
    for pattern, said in _SAID:
        text = re.sub(pattern, said, text)
    text = _ENTRY.sub(_describe_entry, text)
    text = re.sub(r"\bgive ((?:it|its column|numbers|dates|a truth value) )?(?=“)", _choose, text)
    return escape(re.sub("«(.*?)»", lambda found: LABELS[found[1]][0], text))


def _choose(found: re.Match[str]) -> str:
    return f"choose for {found[1]}" if found[1] else "choose "


def _describe_entry(found: re.Match[str]) -> str:
    """Return the field of an entry, with what to choose in it where that is said."""
    label, choices = LABELS[found[1].lower()]
    values = [value for value in re.findall(r'"([^"]*)"|(\d+)', found[2]) if any(value) and value[0] != "..."]
    said = [choices.get(quoted or number, quoted or number) for quoted, number in values]
    if found[2].startswith("[") or not said:
        return f"“{label}”"
    return " or ".join(f"“{label}: {each.rstrip('.:')}”" for each in said)
