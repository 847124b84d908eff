"""A new policy, made from column names and types alone."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import tomlkit
from tomlkit.items import SingleKey

from dp_bundle.manifest.dataset import Dataset
from dp_bundle.manifest.sources import MAX_LEVELS
from dp_publish.data.cells import KINDS_OF_WORDS
from dp_publish.data.dialect import Layout
from dp_publish.data.foreign import Described
from dp_publish.data.kinds import KINDS, ColumnType
from dp_publish.policy.column_survey import named_like_an_identifier
from dp_publish.policy.model import DatasetPolicy

_WIDE = 60  # columns; from here on they get patterns instead of a section each
_NAMED = 8  # of the columns that are left out
_LEAST_ALIKE = 3  # columns that are worth a pattern


def policy_template(
    source: str,
    default_name: str,
    types: dict[str, ColumnType],
    layout: Layout | None = None,
    header: str | None = None,
    booleans: Collection[str] = (),
    described: Mapping[str, Described] | None = None,
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
    described : dict, optional
        What a code book says of the columns.
    """
    books = described or {}
    labelled = _labelled(types, books)
    lines = [] if layout is None else _table_section(layout, header)
    single: list[str] = []
    if len(types) < _WIDE:
        texts = [name for name, kind in types.items() if kind is ColumnType.TEXT and name not in labelled]
        for name, kind in types.items():
            if name in labelled:
                lines += _section_of_levels(name, books[name])
                continue
            label = books[name].label if name in books else ""
            lines += _section(name, kind, label, boolean=name in booleans, explained=name in texts[1:])
    else:
        wide, single = _wide_sections({name: kind for name, kind in types.items() if name not in labelled})
        lines += wide
        for name in labelled:
            lines += _section_of_levels(name, books[name])
    heading = f"# What dp-publish may do with {_quoted(source)}."
    start = _START.replace("{dataset}", "\n".join(_describe_dataset(default_name)), 1)
    return "\n".join([heading, start, *lines, *single]).rstrip("\n") + "\n"


def _describe_dataset(name: str) -> Iterator[str]:
    """Yield the entries of the dataset that most policies give, with what each is for."""
    for entry, field in Dataset.model_fields.items():
        said = DatasetPolicy.model_fields[entry].description
        value = _quoted(name) if field.is_required() else '""'
        yield f"{f'{entry} = {value}':<22} # {said}"


def _labelled(types: Mapping[str, ColumnType], books: Mapping[str, Described]) -> list[str]:
    """Return the columns whose levels are those of a code book."""
    return [
        name
        for name, book in books.items()
        if types[name] is ColumnType.TEXT and 1 < len(book.levels) <= MAX_LEVELS and not named_like_an_identifier(name)
    ]


def _quoted(text: str) -> str:
    return tomlkit.item(text).as_string()


_START = """\
# Fill in the bounds. A guarantee rests on them, so take them from public knowledge (a scale's end points,
# a code book, physics), never from the data; values outside are clipped.

[dataset]
{dataset}
# What portals ask for:
# creators = [{ name = "...", orcid = "...", affiliation = "..." }]   # instead of creator
# publisher = "..."
# keywords = ["...", "..."]
# themes = ["HEAL"]      # of the EU's list: AGRI ECON EDUC ENER ENVI GOVE HEAL INTR JUST REGI SOCI TECH TRAN
# languages = ["en"]
# temporal = { start = "YYYY-MM-DD", end = "YYYY-MM-DD" }
# spatial = ["..."]      # places
# doi = "..."
# related = [{ relation = "IsDerivedFrom", identifier = "https://..." }]
# software_url = "https://..."     # where researchers find dpgraph: no index has it, so tell them where it is

[privacy]
unit = "row"           # what one person may change: a whole "row", only one "cell", or all rows of an entity:
# unit = { entity = "customer_id", max_rows = 10 }
# unit = "change"        # one case more or less in one cell, for counts that have a max_change
mu = 1.0               # or: epsilon = 1.0 and delta = 1e-6; rho = 0.5; sigma = 2.0
# release = "covariance"   # second moments instead of rows: far more accurate at the same strength
# scale = "scores"         # links of normal scores, which bear any shape of a column; "raw": of values; "auto": either
# budget_mu = 3.0       # what all releases of this dataset may cost together; it stays on the books
# bounds_share = 0.1    # the part of rho that finds, privately, the bounds that you leave out
"""


def describe_undecided(types: dict[str, ColumnType], described: Mapping[str, Described] | None = None) -> list[str]:
    """Return a line on the columns that a new policy leaves out, and one on those that may be text, if there are."""
    labelled = _labelled(types, described or {})
    types = {name: kind for name, kind in types.items() if name not in labelled}
    dropped = {
        name: _LEFT_OUT.get(kind, "by its name an identifier" if name else "an index")
        for name, kind in types.items()
        if kind in _LEFT_OUT or named_like_an_identifier(name)
    }
    said = [f"{repr(name) if name else 'a column without a name'} ({reason})" for name, reason in dropped.items()]
    more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    left_out = [f"left out: {', '.join(said[:_NAMED])}{more}"] if said else []
    if ColumnType.TEXT in {types[name] for name in dropped}:
        left_out.append(f"to publish text, give it a kind ({KINDS_OF_WORDS}) in the policy, and delete drop")
    text = (
        f"a text file or a sheet does not say which columns hold words or dates: plan --look names them; give each a "
        f'kind ({KINDS_OF_WORDS}; "date" or "time"), or set drop = true'
    )
    return [*left_out, text] if ColumnType.UNKNOWN in types.values() else left_out


def _table_section(layout: Layout, header: str | None) -> list[str]:
    """Return what was found of how a text file is written, so that the policy holds it."""
    of_text = [
        f"delimiter = {_quoted(layout.delimiter)}",
        f"encoding = {_quoted(layout.encoding.removesuffix('-sig'))}",
    ]
    decimal = f'decimal = "{layout.decimal}"' if layout.decimal else None
    decimal = decimal or '# decimal = ","            # by default either, where a number means one with each'
    is_text = layout.delimiter != ""  # and no sheet
    missing = "besides empty cells, NA, N/A, #N/A, #NA, NaN, null, None, <NA>, ?, -, --, . unless listed as levels"
    return [
        f"[table] # how the {'text file is written' if is_text else 'sheet is read'}",
        *(of_text if is_text else []),
        *([] if header is None else [f'header = "{header}"']),
        *([decimal] if is_text else []),
        *(['# header = "none"          # if the first line is a row, and no column names'] if header is None else []),
        f'# missing_values = ["-999"]   # {missing}',
        "",
    ]


def _heading(name: str, about: str = "") -> str:
    return f"[columns.{SingleKey(name).as_string()}]{about and f' # {about}'}"


def _section_of_levels(name: str, book: Described) -> list[str]:
    """Return the section of a column whose levels a code book has."""
    levels = f"[{', '.join(map(_quoted, book.levels))}]"
    ordered = ['kind = "ordered"', f"levels = {levels}"]
    category = ['kind = "category"', f"categories = {levels}", '# other = "..."      # counts values without a label']
    missing = f'missing = "{"category" if book.has_gaps else "refuse"}" # {_MISSING_LEVELS}'
    return [
        _heading(name),
        "# by the labels in the file: of a code book, and not made of what occurs, as a rare one tells of a person;",
        '# kind = "continuous", with bounds, publishes its numbers instead',
        *(ordered if book.has_order else category),
        f"description = {_quoted(book.label)}",
        _MISSING if book.has_order else missing,
        "# drop = true",
        "",
    ]


def _section(
    name: str, kind: ColumnType, label: str = "", *, boolean: bool = False, explained: bool = False
) -> list[str]:
    """Return a column's section; text is explained once."""
    if kind in _LEFT_OUT:
        short = [f"{_LEFT_OUT[kind]}: {'left out, see above' if explained else 'it is never published'}"]
        said = short if explained else _HINTS.get(kind, short)
        return [_heading(name), *(f"# {line}" for line in said), "drop = true", ""]
    if named_like_an_identifier(name):
        return [_heading(name), f"# {_IDENTIFIER}", "drop = true", ""]

    hints = [_DATES[kind]] if kind in _DATES else [] if boolean else [_BOUNDS, _SPREAD, _PLACE]
    hints += [_CHANGE] * (kind is ColumnType.INTEGER and not boolean) + [_FORMAT] * (kind is ColumnType.UNKNOWN)
    said = [
        _kind(kind, boolean=boolean),
        *(f"# {line}" for line in hints),
        'unit = ""',
        f"description = {_quoted(label)}",
        _MISSING,
    ]
    return [_heading(name), *said, "# drop = true", ""]


def _kind(kind: ColumnType, *, boolean: bool = False) -> str:
    if boolean:
        return 'kind = "boolean" # its bounds are 0 and 1'
    if kind is ColumnType.UNKNOWN:
        return f'kind = "continuous" # {_UNKNOWN}'
    return f'kind = "{KINDS[kind.value].said_as or kind.value}"'


_LEFT_OUT = {  # types that a new policy leaves out, and what is said of them
    ColumnType.TEXT: "text",
    ColumnType.NESTED: "lists or structures",
    ColumnType.OTHER: "not numeric",
}
_HINTS = {
    ColumnType.TEXT: (
        "text: left out. If everybody may know which values can occur, publish it as a category, and delete drop:",
        'kind = "category"            # or "ordered", with levels = ["lowest", ..., "highest"]',
        'categories = ["...", "..."]  # public, never read off the data: a rare value in the list tells of a person',
        'other = "other"              # counts all other values, which are refused otherwise',
        'missing = "category"         # makes a gap a level of its own',
        'format = "%d.%m.%Y"          # of kind = "date" or "time", written otherwise than by ISO',
    ),
    ColumnType.NESTED: ("lists or structures: never published; make columns of them (pyarrow.Table.flatten)",),
}
_DATES = {declared: kind.hint for declared in ColumnType if (kind := KINDS.get(declared.value)) and kind.hint}
_BOUNDS = "bounds = [low, high]"
_CHANGE = 'max_change = ...   # of counts, with unit = "change": how far one person changes it'
_FORMAT = 'format = "%d.%m.%Y"   # of kind = "date" or "time", where cells are not like 2026-01-31 12:30:00'
_IDENTIFIER = "an identifier by its name: left out, unless you protect all its rows by unit = { entity = ... }"
_MISSING = (
    'missing = "refuse" # or "drop" to leave out rows without a value, "indicator" to publish where gaps are, '
    '"midpoint"'
)
_MISSING_LEVELS = 'or "refuse", "category" to make a gap a level of its own, "drop" to leave out rows without one'
_PLACE = "center = ... and scale = ...   # of second moments, if they are public knowledge too: spares finding them"
_SPREAD = "spread = ...   # expected standard deviation over (high - low), for forecasts alone"
_OF_TEXT = ", ".join(f'"{name}"' for name, kind in KINDS.items() if ColumnType.UNKNOWN in kind.read_from)
_UNKNOWN = f'or "integer", {_OF_TEXT}: a text file does not say. Else drop = true'


def _wide_sections(types: dict[str, ColumnType]) -> tuple[list[str], list[str]]:
    """Return defaults for all columns, a section for each family of names, and lines that name the other columns."""
    about = (
        f"{len(types)} columns: what holds for all, then for those of like names. A column's own section goes before",
        "the longest pattern that matches its name (* is any letters, ? any one), and that before shorter ones.",
        _BOUNDS,
    )
    unknown = [_kind(ColumnType.UNKNOWN)] if ColumnType.UNKNOWN in types.values() else []
    lines = [_heading("*"), *(f"# {line}" for line in about), *unknown, _MISSING, ""]

    numeric = [name for name, kind in types.items() if kind.may_be_numbers]
    others = [name for name, kind in types.items() if kind in (ColumnType.TEXT, *_DATES)]
    identifiers = [name for name in numeric if named_like_an_identifier(name)]
    families = _families([name for name in numeric if name not in identifiers], types)
    for pattern, members in families.items():
        lines += [_heading(pattern, f"{len(members)} columns"), f"# {_BOUNDS}", '# unit = ""', ""]
    for name in identifiers:
        lines += _section(name, types[name])

    inside = {name for members in families.values() for name in members} | set(identifiers)
    single = _listing("The other columns, for sections of their own:", [n for n in numeric if n not in inside])
    single += _listing('Text and dates, left out unless a section gives a kind ("category", "date", ...):', others)
    return lines, single


def _listing(heading: str, names: list[str]) -> list[str]:
    """Return names as lines of a comment below their heading; nothing without names."""
    said = ", ".join(map(_quoted, names))
    named = textwrap.wrap(said, 116, break_long_words=False, break_on_hyphens=False)
    return [f"# {heading}", *(f"#   {line}" for line in named)] if named else []


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
