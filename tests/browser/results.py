"""Results of dp-learn, each made once for all tests: of public tables, and of tables that are hard on a page."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from tests.conftest import make_policy

from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path
from dp_publish import publish
from dp_publish.sampling.keystream import insecure_keystream

Table = tuple[pd.DataFrame, dict[str, list[float]]]  # and the bounds of its columns

HOSTILE_NAMES = [
    "<script>alert('name')</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script><!--",
    "טמפרטורה של האוויר",
    "血压 收缩压",
    "long " + "n" * 195,
    "$$\\frac{1}{2}$$ \\(x\\)",
    "@{source} $name {{ 7 * 7 }}",
    "__proto__",
    "constructor",
    "a&b;&lt;b&gt;</textarea></title>",
    "=1+2, \N{PILE OF POO}; 'x'",
]


@dataclass(frozen=True)
class Result:
    """A folder that dp-learn wrote."""

    folder: Path

    @property
    def page(self) -> Path:
        """The page that is looked at."""
        return self.folder / "report.html"

    @property
    def edges(self) -> pd.DataFrame:
        """The edges in the file beside the page, surest first, without the marks that stop spreadsheets' formulas."""
        edges = pd.read_csv(self.folder / "edges.csv", keep_default_na=False, na_values=[""])
        for end in ("source", "target"):
            edges[end] = edges[end].astype(str).str.replace(r"^'(?=[=+\-@])", "", regex=True)
        return edges

    @property
    def summary(self) -> dict[str, Any]:
        """What dp-learn says of the result."""
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        return found


@dataclass
class Results:
    """Every result by its name, made when it is first asked for."""

    root: Path
    made: dict[str, Result] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Result:
        """Return the result of this name."""
        if name not in self.made:
            recipe = RECIPES[name]
            bundle = self.publish(name, *recipe.table(), **recipe.privacy)
            self.made[name] = self.learn(bundle, *recipe.options)
        return self.made[name]

    def publish(
        self, name: str, table: pd.DataFrame, bounds: dict[str, list[float]], *, seed: int = 7, **privacy: object
    ) -> Path:
        """Publish a table with noise that is the same in every run."""
        policy = make_policy(bounds, name=name, **privacy)
        bundle = self.root / f"{name}.bundle.tar"
        with patch.dict(os.environ, DPGRAPH_HOME=str(self.root / "home")):
            if not private_key_path().exists():
                new_key_pair()
            key = load_private_key(private_key_path())
            publish(table[list(bounds)], policy, out=bundle, key=key, keystream=insecure_keystream(seed))
        return bundle

    def learn(self, bundle: Path, *options: str, folder: Path | None = None) -> Result:
        """Learn from a bundle as a user does."""
        folder = folder or bundle.with_name(f"{bundle.name.partition('.')[0]}.graph")
        self.run("dp-learn", str(bundle), "--out", str(folder), *options)
        return Result(folder)

    def run(self, name: str, *arguments: str) -> str:
        """Run one of the commands and return what it prints."""
        finished = subprocess.run(
            [Path(sys.executable).with_name(name), *arguments],
            cwd=self.root,
            env={**os.environ, "DPGRAPH_HOME": str(self.root / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout


@dataclass(frozen=True)
class Recipe:
    """A table, what its release protects and how strongly, and how the graph is learned."""

    table: Callable[[], Table]
    privacy: dict[str, object]
    options: tuple[str, ...] = ()


def breast_cancer() -> Table:
    """Return measurements of nuclei, within twice the largest."""
    table = load_breast_cancer(as_frame=True).data
    return table, {name: [0.0, 2.0 * float(table[name].max())] for name in table}


def ten_columns() -> Table:
    """Return the first ten of these."""
    table, bounds = breast_cancer()
    names = [*bounds][:10]
    return table[names], {name: bounds[name] for name in names}


def hostile_columns() -> Table:
    """Return a chain of columns whose names are what a page must fear."""
    rng = np.random.default_rng(14)
    return _bounded(pd.DataFrame(_chain(rng, 1500, len(HOSTILE_NAMES)), columns=HOSTILE_NAMES))


def _chain(rng: np.random.Generator, n_rows: int, n_columns: int) -> np.ndarray:
    rows = rng.normal(size=(n_rows, n_columns))
    for place in range(1, n_columns):
        rows[:, place] += rows[:, place - 1] * (-1) ** place
    return rows / rows.std(axis=0)


def _bounded(table: pd.DataFrame) -> Table:
    return table, {name: [-5.0, 5.0] for name in table}


RECIPES = {
    "breast cancer": Recipe(breast_cancer, {"unit": "cell", "mu": 10.0}),
    "scores": Recipe(ten_columns, {"scale": "scores", "mu": 3.0}),
    "hostile": Recipe(hostile_columns, {"unit": "cell", "mu": 20.0}, ("--fdr", "0.05")),
}
