"""What a run is given: its size, its data and its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

FULL, QUICK = 10, 1  # repetitions; the papers' own is 10


@dataclass(frozen=True)
class Setting:
    """The size of a run, and where it finds data.

    Attributes
    ----------
    quick : bool
        Whether to run a part of the repetitions, to see that the stored results come out again.
    data : Path or None
        The folder of data sets, $DPGRAPH_DATA.
    """

    quick: bool
    data: Path | None

    @classmethod
    def from_environment(cls, *, quick: bool) -> Setting:
        """Return the setting of a run whose data are where $DPGRAPH_DATA says."""
        folder = os.environ.get("DPGRAPH_DATA")
        return cls(quick, Path(folder) if folder else None)

    def repetitions(self, full: int = FULL, quick: int = QUICK) -> range:
        """Return the numbers of the repetitions to run, the first ones in a quick run."""
        return range(quick if self.quick else full)

    def has(self, name: str) -> bool:
        """Return whether a data set is there."""
        return self.data is not None and (self.data / name).is_dir()


def has_r_package(name: str) -> bool:
    """Return whether R is there, with a package."""
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", f"library({name})"], capture_output=True, check=False).returncode == 0


def seed(*words: object) -> list[int]:
    """Return the seed of what the words name: the same in every run, another for other words."""
    return [zlib.crc32(str(word).encode()) for word in words]
