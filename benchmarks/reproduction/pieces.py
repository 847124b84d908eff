"""The pieces: one for each printed table or figure that is run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from reproduction.setting import Setting, has_r_package

PAPERS = {
    "guo": "Guo et al. (2025), Graph structure learning with privacy guarantees for open graph data",
    "wang18": "Wang, Huai & Xu (2018), Differentially private sparse inverse covariance estimation",
    "wang19": "Wang, Xu & He (2019), Estimating sparse covariance matrix under differential privacy via thresholding",
    "amin": "Amin et al. (2019), Differentially private covariance estimation",
    "su": "Su et al., Differentially private precision matrix estimation",
}
PIECES = (
    "guo.table_1a",
    "guo.table_1b",
    "guo.commands",
    "guo.table_2",
    "guo.figure_2",
    "guo.figure_3",
    "guo.figure_6",
    "guo.graphs",
    "guo.debiasing",
    "guo.routes",
    "guo.theorem_4_2",
    "guo.chickenpox",
    "guo.statements",
    "wang18.errors",
    "wang18.stopped",
    "wang18.theorem_2",
    "wang18.statements",
    "wang19.sweeps",
    "wang19.theorem_2",
    "amin.errors",
    "amin.regression",
    "amin.statements",
    "su.table_1",
    "su.table_2",
    "su.roc",
    "su.ionosphere",
    "su.figure_4",
    "su.statements",
)


@dataclass(frozen=True)
class Piece:
    """One table or figure.

    Attributes
    ----------
    name : str
        The name of its files, which begins with its paper's.
    keys : tuple of str
        The fields of a record that name a cell.
    jobs : callable
        Given the setting, returns the arguments of every job, as tuples. Data are read here or in the job.
    measure : callable
        Runs one job: returns records. A function of a module, as other processes call it too.
    describe : callable
        Given the stored rows, returns what the page's template shows, by name.
    draw : callable, optional
        Given the stored rows and the stem of a path, draws pictures beside it.
    needs : tuple of str
        Data sets without which it is not run.
    packages : tuple of str
        Packages of R without which it is not run.
    """

    name: str
    keys: tuple[str, ...]
    jobs: Callable[[Setting], Iterable[tuple[Any, ...]]]
    measure: Callable[..., list[dict[str, Any]]]
    describe: Callable[[pd.DataFrame], Mapping[str, Any]]
    draw: Callable[[pd.DataFrame, Path], None] | None = None
    needs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The paper that it is from."""
        return self.name.split("_")[0]

    def missing(self, setting: Setting) -> list[str]:
        """Return why it cannot be run here: a reason for everything that it needs and that is not there."""
        reasons = [f"$DPGRAPH_DATA has no {name}" for name in self.needs if not setting.has(name)]
        return reasons + [f"R has no package {name}" for name in self.packages if not has_r_package(name)]


def all_pieces() -> dict[str, Piece]:
    """Return all pieces by name, in the order in which they are run."""
    found = [import_module(f"reproduction.{place}").PIECE for place in PIECES]
    return {piece.name: piece for piece in found}
