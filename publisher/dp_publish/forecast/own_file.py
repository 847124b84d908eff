"""Files that a plan writes: whole or not at all, and never over anything that no plan wrote."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.files.new_files import write_whole

_START = 4096  # bytes, in which a file says what it is


@dataclass(frozen=True)
class OwnFile:
    """A kind of file that plans write.

    Attributes
    ----------
    option : str
        What gives its path.
    form : str
        What it is, as a clause.
    suffixes : tuple of str
        How its name may end; the first one is advised.
    is_ours : callable
        Tells an earlier one by its beginning.
    """

    option: str
    form: str
    suffixes: tuple[str, ...]
    is_ours: Callable[[bytes], bool]

    def require(self, path: Path) -> None:
        """Refuse a path that no such file can have, before any work is done.

        Raises
        ------
        DpGraphError
            There is anything at it but a file that an earlier plan wrote, or its name ends in something else.
        """
        ours = not os.path.lexists(path)
        with contextlib.suppress(OSError):
            if stat.S_ISREG(path.lstat().st_mode):
                with path.open("rb") as file:
                    ours = self.is_ours(file.read(_START))
        if not ours:
            raise DpGraphError(
                f"there is something at {quote_path(path)} that dp-publish plan did not write: give another "
                f"{self.option}"
            )
        if path.suffix.lower() not in self.suffixes:
            advice = f"give {self.option} a name that ends in {self.suffixes[0]}, not {quote_path(path)}"
            raise DpGraphError(f"{self.form}: {advice}")

    def write(self, path: Path, content: bytes) -> None:
        """Write a file, or replace an earlier one of ours.

        Raises
        ------
        DpGraphError
            There is something else at the path by now, or it cannot be written.
        """
        self.require(path)
        try:
            write_whole(path, content, replace=os.path.lexists(path))
        except OSError as error:
            raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error
