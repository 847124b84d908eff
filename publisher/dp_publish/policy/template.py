"""What a new policy says: made from column names and types alone."""

from __future__ import annotations

import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Collection

from dp_publish.data import ColumnType, Layout
from dp_publish.policy.column_survey import named_like_an_identifier

__all__ = ["describe_dropped", "policy_template"]

_WIDE = 60  # columns; from here on they get patterns instead of a section each
_DECIMAL = '# decimal = ","            # by default what the first rows have'
_NAMED = 8  # of the columns that are left out
_LEAST_ALIKE = 3  # columns that are worth a pattern


def policy_template(
    source: str,
    default_name: str,
    types: dict[str, ColumnType],
    layout: Layout | None = None,
    header: str | None = None,
    booleans: Collection[str] = (),
) -> str:
    """Return a commented policy for a table; of a wide one, with patterns of names instead of single columns.

    Parameters
    ----------
    source : str
        The data's name, for the heading.
    default_name : str
        The dataset's name.
    types : dict
        Each column's name and declared type, in order.
    layout : Layout, optional
        How a text file is written, as found.
    header : {"first", "none"}, optional
        What the publisher said of its first line.
    booleans : collection of str
        The columns of truth values.
    """
    lines = [
        f"# What dp-publish may do with {_quoted(source)}.",
        "# Fill in the bounds. A guarantee rests on them, so take them from public knowledge (a scale's end points,",
        "# a code book, physics), never from the data; values outside are clipped.",
        "",
        "[dataset]",
        f"name = {_quoted(default_name)}   # the account that releases are charged to",
        'title = ""',
        'description = ""',
        'creator = ""           # who made the data',
        'license = ""           # as an SPDX identifier, if it has one',
        'contact = ""',
        'url = ""               # where people read about the data',
        'citation = ""          # how the data should be cited',
        "",
        "[privacy]",
        'unit = "row"   # what one person may change: a whole "row", only one "cell", or all rows of an entity:',
        '# unit = { entity = "customer_id", max_rows = 10 }',
        "mu = 1.0       # or: epsilon = 1.0 and delta = 1e-6; rho = 0.5; sigma = 2.0; snr_db = 20",
        '# release = "covariance"   # second moments instead of rows: far more accurate at the same strength',
        "# budget_mu = 3.0       # what all releases of this dataset may cost together; it stays on the books",
        "# bounds_share = 0.1    # the part of rho that finds, privately, the bounds that you leave out",
        *_table_section(layout, header),
    ]
    if len(types) < _WIDE:
        for name, kind in types.items():
            lines += ["", *_section(name, kind, boolean=name in booleans)]
    else:
        lines += _wide_sections(types)
    return "\n".join(lines) + "\n"


def describe_dropped(types: dict[str, ColumnType]) -> list[str]:
    """Return a line on the columns that a new policy leaves out, if there are any."""
    dropped = {
        name: "not numeric" if kind is ColumnType.OTHER else "by its name an identifier" if name else "an index"
        for name, kind in types.items()
        if kind is ColumnType.OTHER or named_like_an_identifier(name)
    }
    said = [f"{repr(name) if name else 'a column without a name'} ({reason})" for name, reason in dropped.items()]
    more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return [f"left out: {', '.join(said[:_NAMED])}{more}"] if said else []


def _table_section(layout: Layout | None, header: str | None) -> list[str]:
    """Return the lines on how a text file is written, so that the policy holds what was found."""
    if layout is None:
        return []
    said = {} if header is None else {"header": header}
    found = {"delimiter": layout.delimiter, "encoding": layout.encoding.removesuffix("-sig"), **said}
    return [
        "",
        "[table]   # how the text file is written",
        *(f"{name} = {_quoted(value)}" for name, value in found.items()),
        *([f"decimal = {_quoted(layout.decimal)}"] if layout.decimal else [_DECIMAL]),
        *([] if said else ['# header = "none"          # if the first line is a row, and no column names']),
        '# missing_values = ["-999"]   # besides empty cells, NA, N/A, #N/A, #NA, NaN, null, None, <NA>, ?, -, --, .',
    ]


def _section(name: str, kind: ColumnType, *, boolean: bool = False) -> list[str]:
    lines = [f"[columns.{_quoted(name)}]"]
    if kind is ColumnType.OTHER:
        return [*lines, "# not numeric: it is never published", "drop = true"]
    if named_like_an_identifier(name):
        return [*lines, _IDENTIFIER, "drop = true"]
    if boolean:
        return [*lines, 'kind = "boolean"   # its bounds are 0 and 1', *_REST]
    if kind is ColumnType.UNKNOWN:
        lines.append('kind = "continuous"   # or "integer", or "boolean"; a text file does not say. Text: drop = true')
    else:
        lines.append(f"kind = {_quoted(kind.value)}")
    return [*lines, "# bounds = [low, high]", _SPREAD, *_REST]


_IDENTIFIER = "# an identifier by its name: left out, unless you protect all its rows by unit = { entity = ... }"
_SPREAD = "# spread = ...   # expected standard deviation over (high - low), for forecasts alone"
_REST = [
    'unit = ""',
    'description = ""',
    'missing = "refuse"   # or "center", or "drop" to leave out rows without a value, or "midpoint"',
    "# drop = true",
]


def _wide_sections(types: dict[str, ColumnType]) -> list[str]:
    """Return defaults for all columns, a section for each family of names, and the names of the others."""
    lines = [
        "",
        f"# {len(types)} columns: what holds for all, then for those of like names. A column's own section goes before",
        "# the longest pattern that matches its name (* is any letters, ? any one), and that before shorter ones.",
        '[columns."*"]',
        "# bounds = [low, high]",
        'missing = "refuse"   # or "center", or "drop" to leave out rows without a value, or "midpoint"',
    ]
    if ColumnType.UNKNOWN in types.values():
        lines.append('kind = "continuous"   # or "integer", or "boolean"; a text file does not say. Text: drop = true')
    numeric = [name for name, kind in types.items() if kind is not ColumnType.OTHER]
    identifiers = [name for name in numeric if named_like_an_identifier(name)]
    families = _families([name for name in numeric if name not in identifiers], types)
    for pattern, members in families.items():
        lines += [
            "",
            f"[columns.{_quoted(pattern)}]   # {len(members)} columns",
            "# bounds = [low, high]",
            '# unit = ""',
        ]
    for name in identifiers:
        lines += ["", *_section(name, types[name])]
    inside = {name for members in families.values() for name in members} | set(identifiers)
    single = [name for name in numeric if name not in inside]
    if single:
        named = textwrap.wrap(", ".join(map(_quoted, single)), 116, break_long_words=False, break_on_hyphens=False)
        lines += ["", "# The other columns, for sections of their own:", *(f"#   {line}" for line in named)]
    return lines


def _families(names: list[str], types: dict[str, ColumnType]) -> dict[str, list[str]]:
    """Return the patterns of names that share what stands before their first number or first underscore or dot."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found = re.match(r"[^\d_.\-]+[_.\-]?(?=.)", name)
        if found and not set("*?") & set(found[0]):
            families[found[0] + "*"].append(name)
    return {
        pattern: members
        for pattern, members in families.items()
        if len(members) >= _LEAST_ALIKE and len(members) == sum(name.startswith(pattern[:-1]) for name in types)
    }


def _quoted(text: str) -> str:
    """Return a TOML basic string, which is a JSON string but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
