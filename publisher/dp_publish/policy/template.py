"""A new policy, made from column names and types alone: its text is `policy.toml.jinja`."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import tomlkit
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from tomlkit.items import SingleKey

from dp_bundle.base.quoting import and_more
from dp_bundle.manifest.columns import MAX_LEVELS
from dp_bundle.manifest.dataset import Dataset
from dp_publish.data.dialect import Layout
from dp_publish.data.faults import KINDS_OF_WORDS
from dp_publish.data.foreign import Described
from dp_publish.data.kinds import KINDS, ColumnType
from dp_publish.policy.column_survey import named_like_a_person, named_like_an_identifier
from dp_publish.policy.model import DatasetPolicy

_WIDE = 60  # columns; from here on they get patterns instead of a section each
_NAMED = 8  # of the columns that are left out
_LEAST_ALIKE = 3  # columns that are worth a pattern
_WIDTH = 116  # of lists of names
_DATES = [declared for declared in ColumnType if (kind := KINDS.get(declared.value)) and kind.hint]
_LEFT_OUT = {  # types that a new policy leaves out, and what is said of them
    ColumnType.TEXT: "text",
    ColumnType.NESTED: "lists or structures",
    ColumnType.OTHER: "not numeric",
}


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
    names, families = [*types], None
    listed: list[tuple[str, list[str]]] = []
    if len(types) >= _WIDE:
        families, identifiers, listed = _families_of({name: types[name] for name in types if name not in labelled})
        names = identifiers + labelled
    texts = [name for name, declared in types.items() if declared is ColumnType.TEXT and name not in labelled]
    text = _environment().get_template("policy.toml.jinja")
    said = text.render(
        source=source,
        dataset=_describe_dataset(default_name),
        layout=layout,
        header=header,
        n_columns=len(types) - len(labelled),
        families=families,
        names=names,
        types={name: declared.value for name, declared in types.items()},
        kinds=KINDS,
        words=[name for name, kind in KINDS.items() if ColumnType.UNKNOWN in kind.read_from],
        books=books,
        labelled=labelled,
        texts=texts,
        booleans=booleans,
        listed=listed,
        asks_whose=any(named_like_a_person(name) or named_like_an_identifier(name) for name in types),
    )
    return said.rstrip("\n") + "\n"


def _environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent)
    plain = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  TOML
    plain.filters |= {"quoted": _quoted, "key": lambda name: SingleKey(name).as_string()}
    plain.tests["identifier"] = named_like_an_identifier
    return plain


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
    left_out = [f"left out: {and_more(said, _NAMED)}"] if said else []
    if ColumnType.TEXT in {types[name] for name in dropped}:
        left_out.append(f"to publish text, give it a kind ({KINDS_OF_WORDS}) in the policy, and delete drop")
    text = (
        f"a text file or a sheet does not say which columns hold words or dates: plan --look names them; give each a "
        f'kind ({KINDS_OF_WORDS}; "date" or "time"), or set drop = true'
    )
    return [*left_out, text] if ColumnType.UNKNOWN in types.values() else left_out


def _families_of(types: dict[str, ColumnType]) -> tuple[dict[str, list[str]], list[str], list[tuple[str, list[str]]]]:
    """Return families of names, the columns that have sections, and lists of all others."""
    numeric = [name for name, declared in types.items() if declared.may_be_numbers]
    identifiers = [name for name in numeric if named_like_an_identifier(name)]
    families = _families([name for name in numeric if name not in identifiers], types)
    inside = {name for members in families.values() for name in members} | {*identifiers}
    lists = {
        "The other columns, for sections of their own:": [name for name in numeric if name not in inside],
        'Text and dates, left out unless a section gives a kind ("category", "date", ...):': [
            name for name, declared in types.items() if declared in (ColumnType.TEXT, *_DATES)
        ],
    }
    return families, identifiers, [(heading, _wrapped(names)) for heading, names in lists.items() if names]


def _wrapped(names: Iterable[str]) -> list[str]:
    said = ", ".join(map(_quoted, names))
    return textwrap.wrap(said, _WIDTH, break_long_words=False, break_on_hyphens=False)


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
