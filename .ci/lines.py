"""Count the lines of code: without blank lines, comments and docstrings, by room and in all.

python .ci/lines.py [--limit 32000]
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("common", "consumer", "publisher")
_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """Return how many lines of a Python file hold code."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, holders) and ast.get_docstring(node, clean=False) is not None:
            docstrings |= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines - docstrings)


def main() -> int:
    """Print the counts; return 1 if there are more than the limit allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="the most that sources may have, and tests")
    limit = parser.parse_args().limit

    totals = []
    for name, folders in (("sources", SOURCES), ("tests", ("tests",))):
        rooms: Counter[str] = Counter()
        for folder in folders:
            for path in sorted((ROOT / folder).rglob("*.py")):
                place = path.relative_to(ROOT).parent.parts
                if "node_modules" not in place:
                    rooms["/".join(place[: 3 if name == "sources" else 2])] += code_lines(path.read_text("utf-8"))
        for room, lines in sorted(rooms.items()):
            print(f"{lines:7,}  {room}")
        totals.append(rooms.total())
        print(f"{rooms.total():7,}  {name}")
    return int(limit is not None and max(totals) > limit)


if __name__ == "__main__":
    sys.exit(main())
