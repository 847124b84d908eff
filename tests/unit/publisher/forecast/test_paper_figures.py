"""The source paper's printed theorems, and why no bundle states them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.columns import Column
from dp_publish.data.missing import RowReport
from dp_publish.forecast.paper_figures import paper_figures
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.noise import ROW_NOISE
from dp_publish.sampling.keystream import insecure_keystream

ROOT = Path(__file__).parents[4]
N_ROWS, SIGMA, N_ATTACKS = 1000, 1.0, 2000
ARGUMENTS = ["n_rows", "width", "sigma", "mean_square", "smallest"]


def test_theorems_as_printed() -> None:
    """For 1,000 cells spread evenly in [-1, 1] and sigma = 1, theorem 4.1 prints 0.31, and the truth is 2."""
    figures = paper_figures(N_ROWS, 2.0, SIGMA, mean_square=1 / 3, smallest=0.5)

    assert figures.theorem_4_1 == pytest.approx(0.31, abs=0.002)
    assert figures.section_5_1 == pytest.approx(0.008)
    assert figures.theorem_4_4 == pytest.approx((0.008 + 0.001) / (math.sqrt(2000) * 0.0005))
    assert figures.true_mu == 2.0


def test_printed_mu_shrinks_with_the_rows_and_the_true_one_does_not() -> None:
    """A hundred times more rows divide the printed mu by ten, while one cell stays as visible as it was."""
    few, many = (paper_figures(n, 2.0, SIGMA, mean_square=1 / 3, smallest=0.5) for n in (1000, 100_000))

    assert few.theorem_4_1 / many.theorem_4_1 == pytest.approx(10)
    assert few.true_mu == many.true_mu


@pytest.mark.parametrize(
    ("n_rows", "width", "sigma", "printed"), [(7466, 1.0, 1.0, 2 / 7466), (89, 211.0, 1.0, 1000.4)]
)
def test_data_with_a_zero_have_the_epsilon_of_section_5_1(
    n_rows: int, width: float, sigma: float, printed: float
) -> None:
    """A smallest value of zero leaves theorem 4.4 without a finite mu, and the other figures as they are."""
    figures = paper_figures(n_rows, width, sigma, mean_square=1.0, smallest=0.0)

    assert figures.section_5_1 == pytest.approx(printed, rel=1e-3)
    assert figures.theorem_4_4 == math.inf
    assert figures.theorem_4_1 < math.inf


@pytest.mark.parametrize(("name", "value"), [*((name, 0) for name in ARGUMENTS[:-1]), ("smallest", -1.0)])
def test_every_argument_must_be_positive(name: str, value: float) -> None:
    """Zero is refused for each argument but the smallest value, by name, and less than zero for that."""
    given = {"n_rows": 10, "width": 1.0, "sigma": 1.0, "mean_square": 1.0, "smallest": 1.0, name: value}

    with pytest.raises(ParameterError, match=name):
        paper_figures(**given)  # type: ignore[arg-type]


def test_an_attack_on_one_cell_does_better_than_theorem_4_1_allows() -> None:
    """Telling +1 from -1 in one of 1,000 published cells succeeds as often as mu = 2 says, far beyond mu = 0.31.

    The optimal test of one cell calls it +1 where the published value is above 0. Its advantage, the share of hits
    minus the share of false alarms, is at most 2 Phi(mu / 2) - 1: 0.12 at the printed mu, and 0.68 at the true one.
    """
    bounds = (-1.0, 1.0)
    noise = ROW_NOISE["continuous"].describe(SIGMA, bounds)
    column = Column(name="x", kind="continuous", bounds=bounds, bounds_obtained="declared", noise=noise)
    x = np.random.default_rng(1).uniform(-1, 1, N_ROWS)
    keystream = insecure_keystream(2)
    above = {}
    for cell in (1.0, -1.0):
        x[0] = cell
        batch = pa.RecordBatch.from_pydict({"x": x})
        above[cell] = np.mean(
            [add_noise(batch, [column], keystream, RowReport()).column(0)[0].as_py() > 0 for _ in range(N_ATTACKS)]
        )
    advantage = above[1.0] - above[-1.0]
    four_errors = 4 * math.sqrt(0.5 / N_ATTACKS)
    printed = paper_figures(N_ROWS, 2.0, SIGMA, mean_square=float(np.mean(x**2)), smallest=0.5)

    assert advantage - four_errors > _advantage(printed.theorem_4_1)
    assert advantage == pytest.approx(_advantage(printed.true_mu), abs=four_errors)


def test_theorem_4_1_is_wrong_of_the_covariance_too() -> None:
    """Whoever sees the noisy covariance alone tells a row of ones from one with a -1 far better than mu = 1.22 allows.

    The test adds up the first column's covariances with the 99 others, each of which the cell moves by 2 / n, and calls
    it a one above the middle. Both chances of an error, by Clopper & Pearson's upper bounds, prove a mu.
    """
    n_rows, n_columns, sigma, n_draws, alpha = 200, 100, 0.5, 1000, 1e-6
    size = math.sqrt(0.43)
    rows = size * np.resize([1.0, -1.0, -1.0, 1.0], (n_rows, n_columns))
    rows[1::2] *= -1
    rows[0] = 1.0
    rng = np.random.default_rng(7)
    sums = {}
    for cell in (1.0, -1.0):
        rows[0, 0] = cell
        noisy = (rows + sigma * rng.standard_normal((n_rows, n_columns)) for _ in range(n_draws))
        sums[cell] = np.array([(each[:, 0] @ each[:, 1:]).sum() / n_rows for each in noisy])
    rest = rows[1:, 0] @ rows[1:, 1:].sum(axis=1)
    wrong = [np.sum(sums[1.0] * n_rows <= rest), np.sum(sums[-1.0] * n_rows > rest)]
    errors = stats.beta.ppf(1 - alpha, np.add(wrong, 1), np.subtract(n_draws, wrong))
    proved = float(stats.norm.isf(errors).sum())
    stated = paper_figures(
        n_rows, 2.0, sigma, mean_square=float(np.mean(rows**2, axis=0).min()), smallest=size
    ).theorem_4_1

    assert stated == pytest.approx(1.216, abs=0.001)
    assert proved > 1.5 * stated
    limits = " ".join((ROOT / "docs/known-limits.md").read_text().split())
    assert f"theorem 4.1 states mu = {stated:.2f}" in limits
    assert "proves at least 2" in limits
    assert proved > 2
    assert "theorems bound" not in (ROOT / "README.md").read_text()


def _advantage(mu: float) -> float:
    return math.erf(mu / 2 / math.sqrt(2))
