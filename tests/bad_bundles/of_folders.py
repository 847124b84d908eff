"""Bundles in folders that are not as they were signed: each is a good one, changed in one place."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.bundle.writing import MANIFEST_NAME

__all__ = ["CASES", "FolderCase"]

PART = "data/part-00000.parquet"


@dataclass(frozen=True)
class FolderCase:
    """A bad folder: the rule of docs/bundle-format.md that it breaks, and what our reader says of it."""

    name: str
    rule: str
    change: Callable[[Path], object]
    says: str


def flipped(name: str) -> Callable[[Path], object]:
    """Flip one bit in the middle of a member."""

    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return change


def _link(folder: Path, name: str) -> None:
    """Put a link to the same bytes in the place of a member or a folder."""
    target = folder.with_name(f"{folder.name}-elsewhere")
    (folder / name).rename(target)
    (folder / name).symlink_to(target)


def _pipe(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def _swap_descriptions(folder: Path) -> None:
    (folder / "croissant.json").rename(folder / "x")
    (folder / "datapackage.json").rename(folder / "croissant.json")
    (folder / "x").rename(folder / "datapackage.json")


def _sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**33)


CASES = [
    FolderCase("No manifest", "FO1", lambda f: (f / MANIFEST_NAME).unlink(), "manifest.dsse.json is missing"),
    FolderCase("No part", "FO1", lambda f: (f / PART).unlink(), "part-00000.parquet is missing"),
    FolderCase("No data", "FO1", lambda f: shutil.rmtree(f / "data"), "data is missing"),
    FolderCase("A renamed part", "FO1", lambda f: (f / PART).rename(f / "data/part-00001.parquet"), "not signed"),
    FolderCase("A name in other letters", "FO1", lambda f: (f / "README.md").rename(f / "readme.md"), "not signed"),
    FolderCase("A further part", "FO1", lambda f: shutil.copy(f / PART, f / "data/part-00001.parquet"), "not signed"),
    FolderCase("A further file", "FO1", lambda f: (f / "notes.txt").write_text("x"), "^notes.txt in .* not signed"),
    FolderCase("A hidden file", "FO1", lambda f: (f / "data/.hidden").write_text("x"), "hidden.* was not signed: move"),
    FolderCase("A file of macOS", "FO1", lambda f: (f / "data/.DS_Store").touch(), "Store. .* by macOS, .*: delete it"),
    FolderCase(
        "A file of Windows", "FO1", lambda f: (f / "Thumbs.db").touch(), "Thumbs.db in .* by Windows, .*: delete it"
    ),
    FolderCase("An empty folder", "FO1", lambda f: (f / "more").mkdir(), "not signed"),
    FolderCase("A name that obeys a terminal", "FO1", lambda f: (f / "\x1b[2J").write_text("x"), "x1b.* not signed"),
    FolderCase("A part that is a link", "FO2", lambda f: _link(f, PART), "is a link"),
    FolderCase("A manifest that is a link", "FO2", lambda f: _link(f, MANIFEST_NAME), "is a link"),
    FolderCase("A folder that is a link", "FO2", lambda f: _link(f, "data"), "is a link"),
    FolderCase("A part that is a pipe", "FO2", lambda f: _pipe(f, PART), "no regular file"),
    FolderCase("A part that is a folder", "FO2", lambda f: _folder(f / PART), "no regular file"),
    FolderCase("A member too large", "FO2", lambda f: _sparse(f / PART), "larger than a member"),
    FolderCase("A manifest too large", "M1", lambda f: _sparse(f / MANIFEST_NAME), "sensible size|larger"),
    FolderCase("A flipped bit in a part", "M4", flipped(PART), "part-00000.parquet"),
    FolderCase("A flipped bit in the README", "M4", flipped("README.md"), "README.md"),
    FolderCase("A truncated part", "M4", lambda f: _cut(f / PART), "croissant|datapackage|part-00000.parquet"),
    FolderCase("An appended byte", "M4", lambda f: _extend(f / PART), "croissant|datapackage|part-00000.parquet"),
    FolderCase("Exchanged descriptions", "M4", _swap_descriptions, "json"),
    FolderCase("A flipped bit in the manifest", "E4", flipped(MANIFEST_NAME), "signature|payload|envelope"),
]
CASES_BEHIND_AN_ADDRESS = [
    FolderCase("No manifest", "FO3", lambda f: (f / MANIFEST_NAME).unlink(), "manifest"),
    FolderCase("No part", "FO3", lambda f: (f / PART).unlink(), "part-00000.parquet"),
    FolderCase("A changed part", "FO3", flipped(PART), "part-00000.parquet"),
]
