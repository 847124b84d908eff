"""Releases that publish gaps of different columns: what is left of them is that of the rows with a value."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import policy_with, publish_alone
from tests.unit.consumer.sources import law_of_two_rounds

from dp_bundle import Bundle, open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn import learn_graph
from dp_learn.covariance.estimate import NoisyCovariance, combine_sources
from dp_learn.covariance.sample import Sample, bundle_sources
from dp_learn.covariance.sources import leave_out_gaps
from dp_learn.covariance.standard_errors import form_errors
from dp_learn.covariance.two_rounds import noise_of_one_round
from dp_learn.matrices.linalg import FloatArray, sandwich
from dp_learn.output.summary import summarize
from dp_learn.pipeline.compare import compare_networks
from dp_learn.pipeline.joint import learn_joint

NAMES = list("abcde")
CHAIN = np.linalg.inv(np.eye(5) - np.diag([0.4] * 4, 1) - np.diag([0.4] * 4, -1))
N_ROWS = 6000
KINDS: dict[str, tuple[dict[str, Any], list[float]]] = {
    "rows": ({"unit": "cell", "mu": 40.0}, [-10.0, 16.0]),
    "one sum": ({"unit": "row", "mu": 20.0, "release": "covariance", "mechanism": "gaussian"}, [-10.0, 16.0]),
    "scores": ({"unit": "row", "mu": 5.0, "scale": "scores"}, [-60.0, 90.0]),
    "two rounds": ({"unit": "row", "mu": 5.0, "release": "covariance"}, [-60.0, 90.0]),
}


def draw(seed: int, gaps: dict[str, float]) -> pd.DataFrame:
    """Return rows of a chain with gaps in these shares of some columns, which depend on nothing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.multivariate_normal(np.zeros(5), CHAIN, N_ROWS), columns=NAMES)
    for name, share in gaps.items():
        table.loc[rng.random(N_ROWS) < share, name] = np.nan
    return table


def release(folder: Path, kind: str, seed: int, gaps: dict[str, float]) -> Path:
    """Publish such rows, with the gaps of these columns."""
    privacy, bounds = KINDS[kind]
    columns = {name: {"bounds": bounds, **({"missing": "indicator"} if name in gaps else {})} for name in NAMES}
    policy = policy_with(columns, name=f"t{seed}", **privacy)
    return publish_alone(draw(seed, gaps), policy, folder / f"{seed}.tar", seed)


def left(table: FloatArray, fills: dict[int, float]) -> tuple[FloatArray, FloatArray]:
    """Return the mean and covariance of a table whose last columns indicate gaps, without these."""
    mean, covariance = table.mean(axis=0), np.cov(table, rowvar=False, bias=True)
    forms, shift, rest = leave_out_gaps(mean, covariance, fills)
    return forms @ (mean - shift), sandwich(forms, covariance) - rest


@pytest.mark.parametrize("fill", [0.0, 100.0])
def test_what_is_left_is_that_of_rows_with_a_value_wherever_gaps_stand(fill: float) -> None:
    """Exactly, also of gaps that depend on other columns; columns without gaps stay as they are."""
    rng = np.random.default_rng(0)
    x, y, z = rng.multivariate_normal([3.0, 1.0, 0.0], [[2.0, 0.8, 0.3], [0.8, 1.0, 0.4], [0.3, 0.4, 1.0]], 500).T
    gap = y + rng.normal(size=500) > 2.0
    mean, covariance = left(np.column_stack([np.where(gap, fill, x), y, z, gap]), {0: fill})

    seen = np.cov(np.column_stack([x, y, z])[~gap], rowvar=False, bias=True)
    np.testing.assert_allclose(covariance[0], seen[0], rtol=1e-9)
    np.testing.assert_allclose(covariance[1:, 1:], np.cov([y, z], bias=True), rtol=1e-9)
    np.testing.assert_allclose(mean, [x[~gap].mean(), y.mean(), z.mean()], rtol=1e-9)

    both = np.arange(500) % 2 == 0  # two columns that lack a value in the same rows
    table = np.column_stack([np.where(both, fill, x), np.where(both, -fill, y), both, both])
    _, covariance = left(table, {0: fill, 1: -fill})
    np.testing.assert_allclose(covariance, np.cov([x[~both], y[~both]], bias=True), rtol=1e-9)


@pytest.mark.slow
def test_gaps_count_in_the_errors_as_noise_on_rows() -> None:
    """Over tables with gaps in three tenths of two columns, correlations are right, and vary as is stated, not less."""
    true = CHAIN[:3, :3] / np.outer(*[np.sqrt(np.diagonal(CHAIN)[:3])] * 2)
    rng, n_rows, found = np.random.default_rng(3), 400, []
    stated, without = np.zeros((3, 3)), np.zeros((3, 3))
    for _ in range(1000):
        rows = rng.multivariate_normal(np.zeros(3), true, n_rows)
        gaps = rng.random((n_rows, 2)) < 0.3
        rows[:, :2] = np.where(gaps, 2.0, rows[:, :2])
        table = np.hstack([rows, gaps])
        forms, _, rest = leave_out_gaps(table.mean(axis=0), np.cov(table, rowvar=False), {0: 2.0, 1: 2.0})
        noisy, nothing = sandwich(forms, np.cov(table, rowvar=False)), np.zeros(3)
        pooled = combine_sources(NAMES[:3], [NoisyCovariance(n_rows, noisy, nothing, nothing, rest)])
        stated += form_errors(pooled, np.eye(3)).along(-true) / 1000
        plain = combine_sources(NAMES[:3], [NoisyCovariance(n_rows, noisy - rest, nothing, nothing)])
        without += form_errors(plain, np.eye(3)).along(-true) / 1000
        found.append(pooled.correlation)
    pairs = np.triu_indices(3, 1)
    np.testing.assert_allclose(np.mean(found, axis=0), true, atol=0.015)
    seen = np.var(found, axis=0)[pairs]
    np.testing.assert_allclose(stated[pairs], seen, rtol=0.15)
    assert (without[pairs][:2] < 0.85 * seen[:2]).all()


def test_noise_on_forms_is_that_of_the_columns_they_are_made_of() -> None:
    """In two rounds of any forms; in one of forms without a common column, on the diagonal where u is 2t."""
    rng = np.random.default_rng(2)
    forms, b = np.array([[1.2, 0.0, 0.0, -3.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]), rng.normal(size=(2, 3))
    c = np.eye(2)
    two = law_of_two_rounds(rng, 4, 5)
    one = noise_of_one_round(90, np.array([2.0, 1.0, 3.0, 0.5]), np.array([0.3, -0.2, 0.0, 0.4]), 0.8, (10.0, 5.0))
    for law in (two, one):
        terms = law.of_forms(forms).terms(c, b), law.terms(c, b @ forms)
        np.testing.assert_allclose(*([*vars(each.errors(slice(None))).values()] for each in terms))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_all_commands_take_gaps_of_different_columns(kind: str, tmp_path: Path) -> None:
    """Correlations are those of values without gaps; what is left out is said, and of d too where it stands apart."""
    shares = ({"a": 0.3, "d": 0.2}, {"b": 0.25, "d": 0.2})
    paths = [release(tmp_path, kind, number, gaps) for number, gaps in enumerate(shares)]
    with open_bundle(paths[0], UnsafeTrustAnyone()) as first, open_bundle(paths[1], UnsafeTrustAnyone()) as second:
        check_gaps_are_left_out([first, second], found=kind in {"two rounds", "scores"})


def check_gaps_are_left_out(bundles: list[Bundle], *, found: bool) -> None:
    """Fail unless all commands leave gaps out, where centers were found privately those of d, too."""
    sources, said = bundle_sources(bundles)
    more = ", d (published by 2 of 2)" if found else ""
    (gaps,) = (each for each in said if f"a (published by 1 of 2), b (published by 1 of 2){more} are" in each)
    deviations = np.sqrt(np.diagonal(CHAIN))
    true = pd.DataFrame(CHAIN / np.outer(deviations, deviations), NAMES, NAMES)
    for source in sources:
        assert [name for name in source.columns if name != "d=(no value)"] == NAMES
        assert ("d=(no value)" in source.columns) != found
        values = pd.DataFrame(Sample([source]).pooled.correlation, source.columns, source.columns)
        known = NAMES if found else list("abce")
        np.testing.assert_allclose(values.loc[known, known], true.loc[known, known], atol=0.07)

    compared = compare_networks(bundles)
    assert compared.nodes == tuple(NAMES)
    assert compared.categories == (set() if found else {"d"})
    assert gaps in compared.notes
    joint = learn_joint(bundles)
    assert joint.nodes == tuple(NAMES)
    assert any("d (published by 2 of 2)" in note for note in joint.notes)
    assert all(graph.adjacency[np.arange(4), np.arange(1, 5)].all() for graph in joint.graphs)
    summary = summarize(learn_graph(bundles), bundles)
    assert gaps in summary["notes"]
    told = " ".join(each for bundle in summary["bundles"] for each in bundle["gaps"])
    assert ("a column beside each" in told) != found
    assert "without a value in a" not in told
