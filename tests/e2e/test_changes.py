"""Tables of counts, of which one case is protected: what publishers and readers are told of people in several cells."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run
from tests.discrete_noise import exact_mu

from dp_bundle import open_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.describe.sentences import SEVERAL_CELLS
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.costs import cost_of_several
from dp_bundle.portals.registry import registry_record
from dp_bundle.trust.judging import UnsafeTrustAnyone

PRIVACY = '[dataset]\nname = "weekly"\n[privacy]\n{privacy}\n[columns."*"]\nkind = "integer"\nbounds = [0, 400]\n'
CHANGES = PRIVACY.format(privacy='unit = "change"\nmu = 0.5') + "max_change = {limit}\n"
CELLS = PRIVACY.format(privacy='unit = "cell"\nmu = 0.3')


@pytest.fixture
def weekly(tmp_path: Path) -> Path:
    """Write cases by region and week, with a policy that protects one case."""
    cases = np.random.default_rng(7).poisson(20, (600, 4))
    pd.DataFrame(cases, columns=[f"region_{place}" for place in range(4)]).to_parquet(tmp_path / "weekly.parquet")
    (tmp_path / "weekly.policy.toml").write_text(CHANGES.format(limit=1))
    return tmp_path / "weekly.parquet"


def unfolded(text: str) -> str:
    """Return text without the line breaks of a narrow terminal."""
    return " ".join(text.split())


def test_people_in_several_cells_are_told_of_everywhere(weekly: Path, command: Run) -> None:
    """Planning, publishing, verifying, inspecting and learning say once, alike, who is protected less, and how far."""
    planned = command("dp-publish", "plan", weekly.name)
    published = command("dp-publish", weekly.name)
    verified = command("dp-bundle", "verify", "weekly.bundle.tar")
    inspected = command("dp-bundle", "inspect", "weekly.bundle.tar")
    learned = command("dp-learn", "weekly.bundle.tar", "--out", "found")
    for done in (planned, published, verified, inspected, learned):
        assert done.returncode == 0, done.stderr
        assert unfolded(done.stdout + done.stderr).count(SEVERAL_CELLS) == 1
    assert verified.stderr == f"note: {SEVERAL_CELLS}\n"

    with open_bundle(Path("weekly.bundle.tar"), UnsafeTrustAnyone()) as bundle:
        release = bundle.release
    for words in (Subject(release).description, str(worded_label(release)), str(registry_record(release))):
        assert words.count(SEVERAL_CELLS) == 1
    weekly.with_name("weekly.policy.toml").write_text(CELLS)
    of_cells = command("dp-publish", weekly.name, "--anyway", "--out", "cells.tar")
    assert "several cells" not in of_cells.stdout + command("dp-bundle", "verify", "cells.tar").stderr


def test_several_cells_compose_as_said(weekly: Path, command: Run) -> None:
    """One cell keeps to the mu that was asked for, and ten to sqrt(10) times as much; rho is that of mu, and holds."""
    assert command("dp-publish", weekly.name, "--mu", 1).returncode == 0
    with open_bundle(Path("weekly.bundle.tar"), UnsafeTrustAnyone()) as bundle:
        columns, guarantee = bundle.release.columns, bundle.release.guarantee
    assert guarantee is not None
    (sigma,) = {column.cell_noise.sigma for column in columns}
    steps = np.arange(-200, 201)
    mass = np.exp(-0.5 * (steps / sigma) ** 2)
    mass /= mass.sum()
    one = float(np.sum(mass * (2 * steps + 1)) / (2 * sigma**2))  # Kullback-Leibler, between it and it moved by one
    assert one == pytest.approx(1 / (2 * sigma**2), rel=1e-6)
    assert one <= guarantee.rho == pytest.approx(0.5)
    assert exact_mu(1, sigma) == pytest.approx(1.0, rel=1e-9)
    several = cost_of_several(guarantee, columns, 10)
    assert (several.mu, several.rho) == (pytest.approx(math.sqrt(10)), pytest.approx(10 * one))


@pytest.mark.parametrize("first", ["cells", "changes"])
def test_totals_for_changes_count_releases_of_cells(first: str, weekly: Path, command: Run) -> None:
    """After a release for cells, one for changes states a total, of its own cost and of what a cell costs there."""
    policies = {"cells": CELLS, "changes": CHANGES.format(limit=1)}
    order = [first, *({*policies} - {first})]
    for name in order:
        weekly.with_name("weekly.policy.toml").write_text(policies[name])
        assert command("dp-publish", weekly.name, "--anyway", "--out", f"{name}.tar").returncode == 0

    releases = {}
    for name in order:
        with open_bundle(Path(f"{name}.tar"), UnsafeTrustAnyone()) as bundle:
            releases[name] = bundle.release
    of_cells, of_changes = (releases[name].columns[0].cell_noise.sigma for name in ("cells", "changes"))
    whole, case = exact_mu(400, of_changes), exact_mu(1, of_changes)  # where bounds end, a cell can move no farther
    per_change = 0.5 * (exact_mu(400, of_cells) ** 2 + case**2)
    per_cell = 0.5 * (exact_mu(400, of_cells) ** 2 + whole**2)
    last = releases[order[-1]].cumulative
    stated = {last.unit: last.rho, **last.other_units_rho}
    assert stated["cell"] == pytest.approx(per_cell)
    assert stated.get("change") == (pytest.approx(per_change) if first == "cells" else None)
    books = json.loads(command("dp-publish", "ledger", "--json").stdout)
    totals = {total["unit"]: total["rho"] for total in books["totals"]}
    assert (totals["change"], totals["cell"]) == (pytest.approx(per_change), pytest.approx(per_cell))


@pytest.mark.slow
def test_plan_of_changes_speaks_of_rows_alone(weekly: Path, command: Run) -> None:
    """Second moments are no release for changes, so that a plan compares nothing with them, nor does its page."""
    planned = command("dp-publish", "plan", weekly.name, "--report", "plan.html")
    assert planned.returncode == 0
    page = Path("plan.html").read_text()
    for words in ("moments", "covariance"):
        assert words not in planned.stdout
    for words in ("from second moments", "Second moments", ": moments", "--release covariance", "second moments of"):
        assert words not in page
    document = json.loads(command("dp-publish", "plan", weekly.name, "--json").stdout)
    assert all(row["error_in_moments"] is row["seen_in_moments"] is None for row in document["forecast"])
    assert not any(row["rows_needed_for_moments"] for row in document["forecast"])
    hidden = command("dp-publish", weekly.name, "--mu", "0.002")
    assert hidden.returncode == 2
    assert "would show nothing" in hidden.stderr
    assert "covariance" not in hidden.stderr
