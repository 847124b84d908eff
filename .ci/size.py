"""Count the tokens of the code, whatever its layout: without comments, docstrings and commas; by folder and in all.

python .ci/size.py

More than `MOST` is an error. Imports are counted apart: they are the price of walls.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = {"sources": ("common", "consumer", "publisher"), "tests": ("tests",)}
MOST = {"sources": 371_600, "tests": 330_000}
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_HOLDERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(text: str) -> Counter[str]:
    """Return how many tokens a Python file has, and how many of them import."""
    nodes = [*ast.walk(ast.parse(text))]
    documented = [
        node for node in nodes if isinstance(node, _HOLDERS) and ast.get_docstring(node, clean=False) is not None
    ]
    docstrings = {(node.body[0].lineno, node.body[0].col_offset) for node in documented}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    importing = {line for node in imports for line in range(node.lineno, (node.end_lineno or 0) + 1)}

    found: Counter[str] = Counter()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT and token.string != "," and token.start not in docstrings:
            found.update(tokens=1, imports=token.start[0] in importing)
    return found


def main() -> int:
    """Print the counts; return 1 if there are more than the limits allow."""
    totals = dict.fromkeys(FOLDERS, 0)
    for name, folders in FOLDERS.items():
        rooms: dict[str, Counter[str]] = {}
        for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT).parent.parts
            if "node_modules" not in place:
                rooms.setdefault("/".join(place[:3]), Counter()).update(count(path.read_text("utf-8")))
        for room, counts in rooms.items():
            print(f"{counts['tokens']:8,} tokens {counts['imports']:7,} of imports  {room}")
        totals[name] = sum(counts["tokens"] for counts in rooms.values())
        print(f"{totals[name]:8,} tokens of {name}, of {MOST[name]:,} at most")
    return int(any(totals[name] > most for name, most in MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
