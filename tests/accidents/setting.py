"""A folder with a table and its policies, a state folder, and the commands as processes in it."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.output.folder import foreign_content
from dp_publish.ledger.ledger import Ledger

__all__ = ["Setting", "is_pythons_own", "require_result"]

_POLICY = '[dataset]\nname = "people"\n[privacy]\nmu = 30.0\n{release}\n'
_TABLES = {f"{name}.csv" for name in ("covariance", "edges", "nodes", "pairs", "precision", "ranking")}
_RESULTS = _TABLES | {"graph.graphml", "graph.png", "summary.json"}


@dataclass(frozen=True)
class Setting:
    """Where commands run: `people.parquet`, a policy for each kind of release, and `home`."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, n_rows: int = 20_000) -> "Setting":
        """Write the table, a chain of five columns, and the policies."""
        folder.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(5).normal(size=(n_rows, 5)).cumsum(axis=1)
        table = pd.DataFrame(values, columns=list("abcde"))
        table.to_parquet(folder / "people.parquet")
        bounds = "".join(f"[columns.{name}]\nbounds = [-9, 9]\n" for name in table.columns)
        for release in ("rows", "covariance", "scores"):
            found = "" if release == "scores" else bounds
            said = 'scale = "scores"' if release == "scores" else f'release = "{release}"'
            (folder / f"{release}.toml").write_text(_POLICY.format(release=said) + found)
        return cls(folder)

    @property
    def home(self) -> Path:
        """The state folder."""
        return self.folder / "home"

    @property
    def ledger(self) -> Ledger:
        """The publisher's ledger."""
        return Ledger(self.home / "ledger.sqlite", self.home / "keys" / "ledger.log")

    def start(self, command: str, *words: str | bytes, **settings: str) -> subprocess.Popen[bytes]:
        """Start a command; what it says is kept."""
        program = Path(sys.executable).with_name(command)
        environment = {**os.environ, "DPGRAPH_HOME": str(self.home), "OPENBLAS_NUM_THREADS": "1", **settings}
        return subprocess.Popen(
            [program, *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def publish(self, out: str, release: str = "rows") -> subprocess.Popen[bytes]:
        """Start a release."""
        return self.start("dp-publish", "people.parquet", "--policy", f"{release}.toml", "--anyway", "--out", out)

    def await_booking(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the copy of the ledger grows, or the process has ended."""
        size = self._size_of_books()
        while process.poll() is None and self._size_of_books() == size:
            time.sleep(0.001)

    def _size_of_books(self) -> int:
        path = self.home / "keys" / "ledger.log"
        return path.stat().st_size if path.exists() else 0

    def published(self) -> dict[str, int]:
        """Return the number of each bundle in the folder, after verifying it."""
        found = {}
        for path in sorted(self.folder.glob("*.tar")):
            with open_bundle(path, UnsafeTrustAnyone()) as bundle:
                found[path.name] = bundle.release.lineage.number
        return found

    def is_public(self, out: str) -> bool:
        """Tell whether there is a whole bundle at a place."""
        place = out if "://" in out else f"{self.folder}/{out}"
        with open_bundle(place, UnsafeTrustAnyone()) as bundle:
            return bool(bundle.release.lineage.number)

    def booked(self) -> set[int]:
        """Return the numbers of the releases that are in the ledger as spent."""
        return {entry.number for entry in self.ledger.entries("people")}


def require_result(folder: Path) -> None:
    """Check that a folder of results is whole, as dp-learn wrote it."""
    why = foreign_content(folder)
    assert why is None, f"{folder} {why}"
    missing = _RESULTS - {path.name for path in folder.iterdir()}
    assert not missing, f"{folder} lacks {missing}"


def is_pythons_own(trace: str) -> bool:
    """Tell whether an interrupt came while Python started, before the first line of ours could do anything about it."""
    return "in launch" not in trace
