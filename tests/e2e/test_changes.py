"""Tables of counts, of which one case is protected: what publishers and readers are told of people in several cells."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_bundle import open_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.catalog.vocabularies import describe_in
from dp_bundle.describe.sentences import SEVERAL_CELLS
from dp_bundle.describe.subject import Subject
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
    published = command("dp-publish", weekly.name, "--details")
    verified = command("dp-bundle", "verify", "weekly.bundle.tar")
    inspected = command("dp-bundle", "inspect", "weekly.bundle.tar")
    learned = command("dp-learn", "weekly.bundle.tar", "--out", "found")
    for done in (planned, published, verified, inspected, learned):
        assert done.returncode == 0, done.stderr
        assert unfolded(done.stdout + done.stderr).count(SEVERAL_CELLS) == 1
    assert verified.stderr == f"note: {SEVERAL_CELLS}\n"

    with open_bundle(Path("weekly.bundle.tar"), UnsafeTrustAnyone()) as bundle:
        release = bundle.release
    for words in (Subject(release).description, str(worded_label(release)), str(describe_in("datacite", release, []))):
        assert words.count(SEVERAL_CELLS) == 1
    weekly.with_name("weekly.policy.toml").write_text(CELLS)
    of_cells = command("dp-publish", weekly.name, "--anyway", "--details", "--out", "cells.tar")
    assert "several cells" not in of_cells.stdout + command("dp-bundle", "verify", "cells.tar").stderr
