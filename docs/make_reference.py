"""Write pages of docs/reference, and the tables of results.md, from the code; `make docs` runs it, a test compares."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from dp_bundle.base import errors
from dp_bundle.manifest.release import Statement
from dp_publish.policy.mistakes import SECTIONS, allowed_of

FOLDER = Path(__file__).parent / "reference"
sys.path.append(str(FOLDER.parents[1]))  # of tests, which list the faults that they plant

POLICY_HEAD = """# The policy file

Every entry that a policy may have. An entry that is not listed is an error. [For publishers](../publisher.md) explains
when to use which; `dp-publish policy DATA` writes a template. (`make docs` writes this page from the code that reads
policies.)
"""
HEADINGS = {
    "dataset": (
        "`[dataset]`",
        "What the data are called, and what researchers are told about them. All of it is published.",
    ),
    "privacy": (
        "`[privacy]`",
        "The release, whom it protects, and how strongly: exactly one of mu, epsilon (with delta, except for a "
        "covariance release), rho and sigma.",
    ),
    "privacy.unit": ("`unit = { ... }` under `[privacy]`", "An entity as the unit of privacy."),
    "columns": (
        '`[columns."NAME"]`',
        "One section for each column that needs one. A name with `*` or `?` that is no column's is a pattern.",
    ),
    "table": ("`[table]`", "How a text file is written, where dp-publish should not find out by itself."),
}
MANIFEST_HEAD = """# The manifest

The signed payload of a bundle, field by field: the JSON Schema that `dp-bundle schema` prints, as tables. A manifest
has every field; the last column is the value of a field where there is nothing to say. Beyond what a schema
can say, a reader checks that the guarantee follows from the noise ([the file format](../bundle-format.md)).
The schema itself is [manifest-v8.schema.json](../manifest-v8.schema.json). (`make docs` writes this page.)
"""

LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "maxProperties": "at most {} entries",
    "pattern": "`{}`",
}
RANGES = (("characters", "minLength", "maxLength"), ("entries", "minItems", "maxItems"))

# What results.md has of a docstring, and where the docstring begins to list it.
MADE = re.compile(r"(<!-- made from ([\w.]+) -->).*?(<!-- end -->)", re.DOTALL)
LIST = re.compile(r"^The (columns|entries|files)[^:\n]*:\n", re.MULTILINE)
LISTED = {
    "columns": ("column", "unit, range", "meaning"),
    "entries": ("entry", "meaning"),
    "files": ("file", "written by", "content"),
}

ERRORS_HEAD = """# Exit codes and errors

A command ends with one of the [exit codes](../commands.md), and an error is one sentence on stderr. In Python the same
errors are exceptions of `dp_bundle.base.errors`, with attributes for what a caller needs to react. `except BundleError`
catches everything that may be wrong with a file from elsewhere, and `except DpGraphError` every error that this project
raises on purpose. (`make docs` writes this page.)

| exit code of a command | error | meaning | attributes |
|---|---|---|---|
"""


def policy_page() -> str:
    """Return the page of the policy; of all entries of the models, with their descriptions."""
    parts = [POLICY_HEAD]
    for section, (heading, said) in HEADINGS.items():
        parts += [f"\n## {heading}\n\n{said}\n\n| entry | allowed | default | meaning |\n|---|---|---|---|\n"]
        for name, field in SECTIONS[section].model_fields.items():
            place = ("columns", "NAME", name) if section == "columns" else (*section.split("."), name)
            cells = f"`{name}`", cell(allowed_of(place)), default(field), cell(field.description)
            parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def default(field: Any) -> str:
    """Return what an entry is if it is left out."""
    if field.default is PydanticUndefined:
        return "must be given"
    value = field.default.value if isinstance(field.default, Enum) else field.default
    return "" if value in (None, "", ()) else f"`{json.dumps(value)}`"


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def manifest_page() -> str:
    """Return the page of the manifest."""
    schema = Statement.model_json_schema()
    models = {"Statement": schema, **schema["$defs"]}
    ordered = dict.fromkeys(["Statement", "Subject", "Release", *models])
    return MANIFEST_HEAD + "".join(
        part for name in ordered if "properties" in models[name] for part in model(name, models[name])
    )


def model(name: str, described: dict[str, Any]) -> Iterator[str]:
    """Yield heading, description and fields of one object of the manifest."""
    yield f"\n## {name}\n\n"
    for paragraph in described.get("description", "").split("\n\n"):
        yield cell(paragraph) + "\n\n"
    yield "| field | type | limits | empty |\n|---|---|---|---|\n"
    for field, its in described["properties"].items():
        empty = its.get("default", {} if its.get("type") == "object" else None)
        shown = "" if field in described.get("required", []) or empty else f"`{json.dumps(empty)}`"
        yield f"| `{field}` | {kind(its)} | {cell(limits(its))} | {shown} |\n"


def kind(its: dict[str, Any]) -> str:
    """Return the type of a field."""
    if "anyOf" in its:
        return " or ".join(dict.fromkeys(kind(each) for each in its["anyOf"]))
    if "oneOf" in its:
        return ", ".join(map(kind, its["oneOf"]))
    if "$ref" in its:
        name = its["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in its:
        return f"`{json.dumps(its['const'])}`"
    if "enum" in its:
        return ", ".join(f"`{json.dumps(value)}`" for value in its["enum"])
    if its.get("type") == "array" and "items" in its:
        return f"list of {kind(its['items'])}"
    if its.get("type") == "array" and "prefixItems" in its:
        return f"list of {len(its['prefixItems'])} {kind(its['prefixItems'][0])}s"
    if isinstance(its.get("additionalProperties"), dict):
        return f"object of {kind(its['additionalProperties'])}s"
    return str(its.get("type", "any"))


def limits(its: dict[str, Any]) -> str:
    """Return what bounds a field's values, lengths and patterns."""
    if "anyOf" in its:
        return "; ".join(filter(None, map(limits, its["anyOf"])))
    said = [text.format(number(its[key])) for key, text in LIMITS.items() if key in its]
    for what, least, most in RANGES:
        if least in its and most in its and its[least] != its[most]:
            said.append(f"{number(its[least])} to {number(its[most])} {what}")
        elif most in its and least not in its:
            said.append(f"at most {number(its[most])} {what}")
        elif least in its and most not in its:
            said.append(f"at least {number(its[least])} {what}")
    return ", ".join([*said, *filter(None, [limits(its["items"]) if "items" in its else ""])])


def number(value: Any) -> str:
    """Return a limit as people write it, whether the schema has a whole number as 1 or, as some versions do, as 1.0."""
    if value == 2**53:
        return "2^53"
    return str(value) if isinstance(value, str) or value % 1 else f"{int(value):,}"


def errors_page() -> str:
    """Return the page of the errors, each below the one that it is a kind of."""
    return ERRORS_HEAD + "".join(tree(errors.DpGraphError, 0))


def tree(error: type[errors.DpGraphError], depth: int) -> Iterator[str]:
    """Yield a line of the table for an error and for each kind of it."""
    indent = "&emsp;" * depth
    attributes = dict.fromkeys(re.findall(r"self\.([a-z]\w*)\b(?=[^=\n(]*=)", inspect.getsource(error)))
    attributes |= dict.fromkeys(name for name, each in vars(error).items() if isinstance(each, property))
    said = cell(inspect.getdoc(error).splitlines()[0].rstrip("."))
    shown = ", ".join(f"`{name}`" for name in attributes)
    yield f"| {error.exit_code} | {indent}`{error.__name__}` | {said} | {shown} |\n"
    for kind_of in error.__subclasses__():
        if kind_of.__module__ == errors.__name__:
            yield from tree(kind_of, depth + 1)


def with_tables(name: str) -> str:
    """Return a page with its tables made anew, each from the docstring, or from the dictionary, that it names."""
    page = (FOLDER / name).read_text(encoding="utf-8")
    return MADE.sub(lambda found: f"{found[1]}\n\n{table(found[2])}\n{found[3]}", page)


def table(name: str) -> str:
    """Return what a docstring lists, or the planted faults by the check that finds them, as a table."""
    source = pkgutil.resolve_name(name)
    rows = by_check(source) if isinstance(source, dict) else listed(inspect.getdoc(source) or "")
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |").replace(" --- ", "---")


def by_check(faults: dict[tuple[str, str], list[str]]) -> list[list[str]]:
    """Return the rows of the table of faults, which stand by policy and check."""
    rows: dict[str, list[str]] = {}
    for (_, check), found in faults.items():
        rows.setdefault(check, []).extend(found)
    return [["check", "faults"], ["---"] * 2, *([f"`{check}`", "; ".join(found)] for check, found in rows.items())]


def listed(docstring: str) -> list[list[str]]:
    """Return the columns, entries or files that a docstring lists, as rows of a table."""
    _, what, text = LIST.split(docstring, maxsplit=1)
    rows = [[*LISTED[what]], ["---"] * len(LISTED[what])]
    for term, meaning in re.findall(r"^(\w[^\n]*)\n((?:    [^\n]+\n?)+)", text, re.MULTILINE):
        names, _, unit = term.partition(" : ")
        spelled = ", ".join(f"`{each}`" for each in names.split(", "))
        rows.append([spelled, *[unit] * (len(rows[0]) == 3), cell(meaning)])
    return rows


PAGES: dict[str, Callable[[], str]] = {
    "policy.md": policy_page,
    "manifest.md": manifest_page,
    "errors.md": errors_page,
    "results.md": partial(with_tables, "results.md"),
    "../audit.md": partial(with_tables, "../audit.md"),
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
