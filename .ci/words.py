"""Count the words of the pages that people read, by hand and generated, and list sentences that are too long.

    python .ci/words.py          the counts, as `make lint` prints them
    python .ci/words.py --all    with every page, every long sentence, and every word that is not the field's

A page above its number in `MOST`, or a total above `TOTALS`, is an error. Headings, prose and cells of tables count.
Code that a page shows is counted apart. Of the papers' pages, what their templates say is written by hand. In other
pages, what stands after "made from" is generated.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
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
TOTALS = {"by hand": 45_000, "generated": 22_300, "long sentences": 1, "other words": 16}
LONGEST = 25
# Words of ours where the field has its own, or that mean several things.
OTHERS = re.compile(
    r"(?i)\b(aside|(?<!code )(?<!Jupyter )books?|heaps?|looks? (?:for|like|at)|patience|press(?:es)?|told|tells?"
    r"|windows?)\b"
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
        totals.update({"long sentences": len(long), "other words": len(others)})
        if "--all" in sys.argv:
            print(*(f"{name}: {n_words(each)} words: {each}" for each in long), sep="\n", end="\n" * bool(long))
            print(*(f"{name}: {each}" for each in others), sep="\n", end="\n" * bool(others))

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
