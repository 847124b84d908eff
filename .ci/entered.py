"""Count the modules and functions of ours that commands enter: publishing 178 rows, learning them, a site of two files.

    python .ci/entered.py

A module counts if one of its functions runs; what is only imported does not. More than `MOST` is an error. What pages
show is asked of the reader's package, whose modules count where that is the command. The noise is the same each time,
as some releases lead the learner through solvers that others do not need.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import itertools
import os
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("dp_audit", "dp_bundle", "dp_learn", "dp_publish")
MOST = {  # modules, of a release of each kind
    "rows": {"publish": 88, "learn": 59, "catalog": 37},
    "covariance": {"publish": 102, "learn": 63, "catalog": 40},
}


def entered(package: str, *words: str) -> set[tuple[str, str]]:
    """Run a command, and return the files and functions that it entered."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # and no body of a module or class
            found.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    cli = import_module(f"{package}.cli.main").cli
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main([*words], standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    packages = [name for name in PACKAGES if name != "dp_learn" or name == package]
    ours = tuple(f"{Path(import_module(name).__file__ or '').parent}{os.sep}" for name in packages)
    return {(file, function) for file, function in found if file.startswith(ours) and file.endswith(".py")}


def main() -> int:
    """Print the counts; return 1 if a command enters more modules than it may."""
    from sklearn.datasets import load_wine

    from dp_publish.sampling.keystream import SecureKeystream

    numbers = itertools.count()
    SecureKeystream._key_and_counter = lambda _: (hashlib.sha256(b"%d" % next(numbers)).digest(), bytes(16))

    too_many = False
    for kind, most in MOST.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ["DPGRAPH_HOME"] = f"{folder}/home"
            load_wine(as_frame=True).data.to_parquet("wine.parquet")
            release = ("dp_publish", "wine.parquet", "--mu", "20", "--release", kind, "--out")
            entered(*release, "first.tar")  # which makes the key
            for name, words in {
                "publish": (*release, "second.tar"),
                "learn": ("dp_learn", "first.tar", "--out", "found"),
                "catalog": ("dp_bundle", "catalog", ".", "--out", "site"),
            }.items():
                found = entered(*words)
                modules = {file for file, _ in found}
                print(f"{name}, {kind}: {len(modules)} modules, {len(found)} functions")
                too_many |= len(modules) > most[name]
    return int(too_many)


if __name__ == "__main__":
    sys.exit(main())
