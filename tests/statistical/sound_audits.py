"""Audits of sound releases by policies of chance: `python -m tests.statistical.sound_audits 50`.

Every policy has some of all kinds of columns, a unit, a strength and a release of its own, drawn by a seed. Nothing may
be found in any.
"""

import datetime
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_audit.planned_release import audit_planned_release
from dp_audit.report import AuditReport
from dp_bundle.base.errors import DpGraphError
from dp_publish import Policy
from dp_publish.release.aside import publish_aside

_DAYS = [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)]
_LEVELS = ["low", "middle", "high"]
_COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {  # a cell, and how it is published
    "a": (1.0, {"bounds": [-4, 4], "missing": "midpoint"}),
    "b": (1.0, {"bounds": [0, 1], "weight": 3}),
    "c": (1.0, {"bounds": [0, 10], "missing": "indicator"}),
    "d": (1.0, {"bounds": [1e5, 2e5], "missing": "drop"}),
    "i": (1, {"bounds": [0, 30], "kind": "integer", "missing": "midpoint"}),
    "j": (1, {"bounds": [0, 1], "kind": "integer"}),
    "born": (_DAYS[0], {"kind": "date", "bounds": _DAYS}),
    "died": (_DAYS[0], {"kind": "date", "bounds": _DAYS, "missing": "indicator"}),
    "seen": (datetime.time(5), {"kind": "time", "bounds": [datetime.time(0), datetime.time(12)]}),
    "grade": ("low", {"kind": "ordered", "levels": _LEVELS}),
    "rank": ("low", {"kind": "ordered", "levels": _LEVELS, "missing": "indicator"}),
    "town": ("a", {"kind": "category", "categories": list("abcde"), "missing": "category"}),
    "job": ("a", {"kind": "category", "categories": list("abcd"), "mechanism": "gaussian"}),
    "sex": ("f", {"kind": "category", "categories": ["f", "m"]}),
}
_OF_ROWS: list[dict[str, Any]] = [{"mu": 0.5}, {"mu": 2.0}, {"mu": 8.0}, {"rho": 1.0}, {"epsilon": 2.0, "delta": 1e-6}]
_OF_MOMENTS: list[dict[str, Any]] = [
    {"mechanism": "gaussian", "mu": 1.0},
    {"mechanism": "two-round", "mu": 1.0},
    {"mechanism": "two-round", "epsilon": 1.0, "delta": 1e-6},
    {"mechanism": "laplace", "epsilon": 1.0},
    {"mechanism": "wishart-difference", "epsilon": 2.0},
    {"release": "copula", "mu": 1.0},
    {"release": "copula", "epsilon": 2.0, "delta": 1e-6},
]


def random_policy(rng: np.random.Generator) -> tuple[Policy, pa.Table]:
    """Return a policy, and a table of one row for its columns' names and types."""
    names = sorted(rng.choice(sorted(_COLUMNS), int(rng.integers(2, 7)), replace=False).tolist())
    entity = {"entity": "who", "max_rows": int(rng.integers(1, 6))}
    of_moments = bool(rng.random() < 0.4)
    units = ["row", entity] if of_moments else ["row", "cell", entity]
    privacy = {"unit": units[int(rng.integers(len(units)))]}
    choices = _OF_MOMENTS if of_moments else _OF_ROWS
    privacy |= {"release": "covariance"} if of_moments else {}
    privacy |= choices[int(rng.integers(len(choices)))]
    if privacy.get("mechanism") in ("gaussian", "laplace") and rng.random() < 0.5:
        privacy["neighbours"] = "add-remove"
    columns = {name: dict(_COLUMNS[name][1]) for name in names}
    if of_moments or privacy["unit"] == "cell":
        for entry in columns.values():
            entry.pop("weight", None)
    row = {name: [_COLUMNS[name][0]] for name in names} | ({"who": ["w"]} if privacy["unit"] == entity else {})
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns}), pa.table(row)


def audits(count: int, seed: int = 1) -> Iterator[tuple[Policy, AuditReport]]:
    """Yield so many audits; policies that allow no release are drawn again."""
    rng, done = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        while done < count:
            policy, table = random_policy(rng)
            pq.write_table(table, path)
            try:
                report = audit_planned_release(path, policy, publish_aside, n_canaries=3000, tell=lambda _: None)
            except DpGraphError as error:
                click.echo(f"no release: {error}", err=True)
                continue
            done += 1
            yield policy, report


def main(count: int, seed: int) -> int:
    """Print a line for each audit, and how many found something."""
    n_found = 0
    for number, (policy, report) in enumerate(audits(count, seed), 1):
        n_found += bool(report.findings)
        found = "; ".join(f"{check.name}: {check.detail}" for check in report.findings) or "nothing"
        asked = policy.privacy.model_dump(exclude_unset=True)
        click.echo(f"{number} {asked} {' '.join(policy.columns)}: {found}")
    click.echo(f"{n_found} of {count} audits of sound releases found something")
    return n_found > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
