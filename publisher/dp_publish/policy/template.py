"""A new policy, made from column names and types alone: its text is `policy.txt`."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import tomlkit
from tomlkit.items import SingleKey

from dp_bundle.base.document import fill_template
from dp_bundle.base.quoting import and_more
from dp_bundle.manifest.columns import MAX_LEVELS
from dp_bundle.manifest.dataset import Dataset
from dp_publish.data.dialect import Layout
from dp_publish.data.faults import KINDS_OF_WORDS
from dp_publish.data.foreign import Described
from dp_publish.data.kinds import KINDS, ColumnType
from dp_publish.policy.column_survey import named_like_a_person, named_like_an_identifier
from dp_publish.policy.model import DatasetPolicy

_WIDE = 60  # columns; from here on they get one section for all
_NAMED = 8  # of the columns that are left out
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
    """Return a commented policy for a table; of a wide one, with one section for all columns.

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
    is_wide, others = len(types) >= _WIDE, [name for name in types if name not in labelled]
    identifiers = [name for name in others if types[name].may_be_numbers and named_like_an_identifier(name)]
    left_out = [name for name in others if types[name] in (ColumnType.TEXT, *_DATES)]
    texts = [name for name, declared in types.items() if declared is ColumnType.TEXT and name not in labelled]
    values = {
        "source": source,
        "dataset": _describe_dataset(default_name),
        "layout": layout,
        "header": header,
        "n_columns": len(types) - len(labelled),
        "is_wide": is_wide,
        "names": identifiers + labelled if is_wide else [*types],
        "types": {name: declared.value for name, declared in types.items()},
        "kinds": KINDS,
        "words": [name for name, kind in KINDS.items() if ColumnType.UNKNOWN in kind.read_from],
        "books": books,
        "labelled": labelled,
        "texts": texts,
        "booleans": booleans,
        "listed": _wrapped(left_out) if is_wide else [],
        "asks_whose": any(named_like_a_person(name) or named_like_an_identifier(name) for name in types),
        "quoted": lambda texts: ", ".join(map(_quoted, texts)),
        "key": lambda name: SingleKey(name).as_string(),
        "is_identifier": named_like_an_identifier,
    }
    return fill_template(Path(__file__).parent, "policy.txt", values).rstrip("\n") + "\n"


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


def _wrapped(names: Iterable[str]) -> list[str]:
    said = ", ".join(map(_quoted, names))
    return textwrap.wrap(said, _WIDTH, break_long_words=False, break_on_hyphens=False)
