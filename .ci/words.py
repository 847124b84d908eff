"""Count the words of the pages that people read, by hand and generated, and the sentences that are too long.

    python .ci/words.py          the counts, as `make lint` prints them
    python .ci/words.py --all    with every page, every long sentence, and every word that is not the field's

Sentences are those of pages, of docstrings, and of messages: texts of a module with two words of prose, and templates.
In a message a colon ends a sentence, as it stands between what is wrong and what to do. A page above its number in
`MOST`, or a total above `TOTALS`, is an error; numbers only go down. Headings, prose and cells of tables count.
Code that a page shows is counted apart. Of the papers' pages, what their templates say is written by hand. In other
pages, what stands after "made from" is generated.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "benchmarks" / "reproduction" / "templates"
GENERATED = re.compile(r"docs/(commands|benchmarks/index|reference/(errors|manifest|policy))\.md")
BESIDE = ("CONTRIBUTING.md", "README.md", "RELEASE.md", "SECURITY.md")
# The most words that a page may have, or each page in a folder that has no number of its own.
MOST = {
    "README.md": 500,
    "CONTRIBUTING.md": 830,
    "SECURITY.md": 1_260,
    "docs": 1_120,
    "docs/adr": 300,
    "docs/bundle-format.md": 4_000,
    "docs/bundle-format-annexes.md": 2_100,
    "docs/how-to": 800,
    "docs/known-limits.md": 1_700,
    "docs/publisher.md": 2_500,
    "docs/reference": 2_200,
    "docs/reproduction": 1_000,
    "docs/researcher.md": 2_500,
    "docs/tutorials": 1_300,
}
TOTALS = {
    "by hand": 45_000,
    "generated": 22_300,
    "long sentences of pages": 0,
    "long sentences of messages": 0,
    "long sentences of public docstrings": 0,
    "long sentences of docstrings": 38,
    "other words of pages": 0,
    "other words of messages": 1,
    "other words of public docstrings": 0,
}
LONGEST = 25
# The words of a bundle's README are a part of its format: they change with its version.
OF_THE_FORMAT = ROOT / "common" / "dp_bundle" / "describe" / "sentences.py"
# Words of ours where the field has its own, or that mean several things.
OTHERS = re.compile(
    r"(?i)\b(aside|(?<!code )(?<!Jupyter )books?|heaps?|looks? (?:for|like|at)|patience|press(?:es)?(?! Enter)"
    r"|told|tells?|windows?)\b"
)

_WORD = re.compile(r"[^\s|]*\w[^\s|]*")
_FENCE = re.compile(r"^( *)(`{3,})(?!\{(?!code-cell|eval-rst))[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_HIDDEN = re.compile(r"\A---\n.*?\n---$|<!--.*?-->|^ *(?::[\w-]+:|```|:::)[^\n]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\([^)]*\)")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_MADE = re.compile(r"<!-- made from .*?<!-- end -->", re.DOTALL)
_SPAN = re.compile(r"`[^`]*`")
_FORMULA = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+(?=\n)")
_ITEM = re.compile(r"\n\s*\n|\n(?= *(?:[-*|#>]|\d+\.) ?)")
_STRIPPED = re.compile(r"<(style|script).*?</\1>|\{[%#].*?[%#]\}", re.DOTALL)
_BLOCK = re.compile(r"</?(?:p|li|h\d|t[dhr]|div|section|d[dt]|summary|figcaption|caption|label|button|option)\b[^>]*>")
_PROSE = re.compile(r"\b[a-z]{2,} [a-z]{2,}")
_CLAUSE = re.compile(r"(?<=:)\s+")
_END = re.compile(r"(?<=[.!?:])[*_\")]*\s+(?=[\W_]*[A-Z0-9`])")


def n_words(text: str) -> int:
    """Return how many words a text has; an address in a link is none."""
    return len(_WORD.findall(_LINK.sub("]", text)))


def prose(text: str) -> str:
    """Return a page without code, comments, and options of directives."""
    return _HIDDEN.sub("", _FENCE.sub("", text))


def counts(path: Path) -> Counter[str]:
    """Return how many words of a page are by hand, generated, and code."""
    text = path.read_text(encoding="utf-8")
    said, made = prose(text), sum(n_words(prose(part)) for part in _MADE.findall(text))
    code, words = n_words(_HIDDEN.sub("", text)) - n_words(said), n_words(said)
    template = TEMPLATES / f"{path.name}.j2"
    if GENERATED.match(path.relative_to(ROOT).as_posix()):
        return Counter({"generated": words + code})
    if path.parent.name == "reproduction" and template.exists():
        by_hand = n_words(_TEMPLATE.sub("", prose(template.read_text(encoding="utf-8"))))
        return Counter({"by hand": by_hand, "generated": words + code - by_hand})
    return Counter({"by hand": words - made, "generated": made, "code": code})


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; each cell of a table, and each thing that a cell lists, is one of its own."""
    items = (" ".join(item.split()) for item in _ITEM.split(_LINK.sub("]", _FORMULA.sub("\n", prose(text)))))
    parts = (re.split(r"[|;]", item) if item.startswith("|") else [item] for item in items)
    return [sentence for found in parts for part in found for sentence in _END.split(part)]


def spoken(path: Path, public: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield what a module or a template says, each text with its kind: messages, docstrings, public docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        text = _TEMPLATE.sub("X", _STRIPPED.sub("\n\n", text)).replace("\n#", "\n\n#")
        yield "messages", re.sub("<[^>]+>", "", _BLOCK.sub("\n\n", text))
        return

    tree, said = ast.parse(text), set[int]()
    offered = [node for node in tree.body if getattr(node, "name", "") in public]
    methods = [part for node in offered if isinstance(node, ast.ClassDef) for part in node.body]
    known = {id(node) for node in [*offered, *methods] if not getattr(node, "name", "_").startswith("_")}
    for node in ast.walk(tree):
        has_body = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if has_body and (docstring := ast.get_docstring(node, clean=False)) is not None:  # type: ignore[arg-type]
            said.add(id(node.body[0].value))  # type: ignore[attr-defined]
            yield "public docstrings" if id(node) in known else "docstrings", docstring
        if isinstance(node, ast.JoinedStr):
            said.update(map(id, ast.walk(node)))
            yield (
                "messages",
                "".join(
                    str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "X" for part in node.values
                ),
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield "messages", node.value


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and indented parts of a docstring or a message."""
    found: list[str] = []
    indent = -1
    for line in [*inspect.cleandoc(text).splitlines(), ""]:
        begins, own = re.match(r" *(?:[-*|]|\d+\.|>>>) |.*\S {2,}\S", line), len(line) - len(line.lstrip())
        if found and (not line.strip() or begins or own != indent):
            yield " ".join(" ".join(found).split())
            found = []
        if line.strip() and not line.lstrip().startswith(">>>"):
            found.append(line)
        indent = begins.end() if begins else own


def count_spoken(totals: Counter[str], *, shown: bool) -> None:
    """Add the long sentences and the other words of the packages' docstrings, messages and templates."""
    for package in sorted(path.parent for path in ROOT.glob("*/dp_*/__init__.py")):
        tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        offered = frozenset(alias.name for node in imports for alias in node.names)
        paths = [path for path in sorted(package.rglob("*")) if path.suffix in (".py", ".html", ".txt", ".jinja")]
        for path in paths:
            for kind, text in spoken(path, offered):
                if kind == "messages" and (path == OF_THE_FORMAT or not _PROSE.search(text)):
                    continue
                parts = [part for each in paragraphs(text) for part in _END.split(each)]
                parts = [one for part in parts for one in (_CLAUSE.split(part) if kind == "messages" else [part])]
                long = [each for each in parts if n_words(each) > LONGEST]
                others = OTHERS.findall(_SPAN.sub("", text))
                totals.update({f"long sentences of {kind}": len(long), f"other words of {kind}": len(others)})
                if shown:
                    where = path.relative_to(ROOT).as_posix()
                    print(*(f"{where}: {kind}: {n_words(each)} words: {each}\n" for each in long), sep="", end="")
                    print(*(f"{where}: {kind}: {each}\n" for each in others), sep="", end="")


def main() -> int:
    """Print the counts; return 1 if a page, or a total, is above what is allowed."""
    pages = [*(ROOT / name for name in BESIDE), *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [path for path in pages if not {"_build", "_made", "api", "explained"} & {*path.relative_to(ROOT).parts}]
    totals, folders, wrong = Counter[str](), dict[str, Counter[str]](), []
    for path in pages:
        name, found = path.relative_to(ROOT).as_posix(), counts(path)
        folder = name if path.parent in (ROOT, ROOT / "docs") or "--all" in sys.argv else name.rpartition("/")[0]
        folders.setdefault(folder, Counter()).update(found)
        totals.update(found if name.startswith("docs/") else {})
        most = MOST.get(name, MOST.get(name.rpartition("/")[0], MOST["docs"]))
        if found["by hand"] > most:
            wrong.append(f"{name} has {found['by hand']:,} words by hand, of {most:,} at most")

        text = "" if GENERATED.match(name) else path.read_text(encoding="utf-8")
        long = [each for each in sentences(text) if n_words(each) > LONGEST]
        others = OTHERS.findall(_SPAN.sub("", prose(text)))
        totals.update({"long sentences of pages": len(long), "other words of pages": len(others)})
        if "--all" in sys.argv:
            print(*(f"{name}: {n_words(each)} words: {each}" for each in long), sep="\n", end="\n" * bool(long))
            print(*(f"{name}: {each}" for each in others), sep="\n", end="\n" * bool(others))

    count_spoken(totals, shown="--all" in sys.argv)
    for folder, found in folders.items():
        shown = (found[kind] for kind in ("by hand", "generated", "code"))
        print("{:8,} words by hand {:7,} generated {:6,} of code  {}".format(*shown, folder))
    for name, limit in TOTALS.items():
        print(f"{totals[name]:8,} {name}, of {limit:,} at most")
    wrong += [f"too many: {totals[name]:,} {name}" for name, limit in TOTALS.items() if totals[name] > limit]
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
