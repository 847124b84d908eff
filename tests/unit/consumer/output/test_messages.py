"""The lines that dp-learn prints of a graph."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle import open_bundle
from dp_learn import learn_graph
from dp_learn.output.estimator_results import learn_alternative
from dp_learn.output.messages import describe_edges, describe_nodes, describe_number, describe_result
from dp_learn.output.summary import Result, summarize
from dp_learn.pipeline.graph import GraphEstimate
from dp_publish import Receipt, publish


def graph_with(intervals: dict[tuple[int, int], tuple[float, float]], weight: float = 0.4) -> GraphEstimate:
    """Return a graph of four columns with edges of this weight that have these 95 % intervals."""
    precision = np.eye(4)
    low, high = np.full((4, 4), -1.0), np.full((4, 4), 1.0)
    for (i, j), (first, last) in intervals.items():
        precision[i, j] = precision[j, i] = -weight
        low[i, j], high[i, j] = first, last

    class Intervals:
        partial_correlation = -precision

        def error_bars_at(self, pairs: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
            return {"ci_low": low[pairs], "ci_high": high[pairs]}

    return GraphEstimate(("a", "b", "c", "d"), precision, np.eye(4), Intervals())  # type: ignore[arg-type]


def test_edges_of_unsure_sign_are_counted_and_not_listed() -> None:
    """An interval that holds zero, or only the other sign, is no evidence of an edge of whatever strength."""
    graph = graph_with(
        {(0, 1): (0.2, 0.6), (0, 2): (-1.0, 0.998), (0, 3): (-0.01, 0.8), (1, 2): (-0.9, -0.3), (2, 3): (-1, 1)}
    )
    found, *lines = describe_edges(graph, shrunk=False)

    assert found.startswith("  5 of 6 possible edges; ")
    assert lines == [
        "    +0.400 (+0.400, +0.200 to +0.600)  a -- b",
        "    4 more may be absent or have the opposite sign, judging by the 95 % intervals",
    ]
    assert describe_edges(graph_with({(0, 1): (-1, 1), (0, 2): (-1, 0.9)}), shrunk=True) == [
        "  2 of 6 possible edges, all of which may be absent or have the opposite sign, judging by the 95 % intervals"
    ]


def test_the_most_central_node_is_named_with_how_sure_that_is() -> None:
    """The two largest have their intervals, overlap is said, and nothing is where the largest has no interval."""
    nodes = {
        "node": ["a", "b", "c d"],
        "strength": np.array([0.0, 1.2, 0.8]),
        "strength_low": np.array([np.nan, 1.1, 0.7]),
        "strength_high": np.array([np.nan, 1.3, 0.9]),
        "predictability": np.array([0.5, 0.2, 0.45]),
        "predictability_low": np.array([0.4, 0.1, 0.35]),
        "predictability_high": np.array([0.6, 0.3, 0.55]),
    }
    strength, predicted = describe_nodes(nodes)
    assert strength == (
        '  most central by strength, with 95 % intervals: b 1.20 (1.10 to 1.30), then "c d" 0.80 (0.70 to 0.90)'
    )
    assert predicted.startswith("  best predicted by all others, with 95 % intervals: a 0.50 (0.40 to 0.60), then ")
    assert predicted.endswith("; their intervals overlap: do not take their order for sure")
    unknown = nodes | {name: np.full(3, np.nan) for name in ("predictability_low", "predictability_high")}
    assert describe_nodes(unknown | {"strength": np.array([2.0, 1.2, 0.8])}) == []
    assert describe_nodes({}) == []


def test_a_weight_outside_its_interval_is_explained_and_no_sure_edge_is_left_out() -> None:
    """What is in brackets is another estimate; of edges beyond the first ten the sure and the unsure are counted."""
    outside = graph_with({(0, 1): (0.5, 0.8), (2, 3): (0.2, 0.6)})
    kept = describe_edges(outside, shrunk=False)
    assert "can lie outside its interval, as it assumes that pairs without an edge are unrelated; what" in kept[-1]
    assert "unrelated, and the penalty shrinks it; what" in describe_edges(outside, shrunk=True)[-1]

    precision = np.eye(6) - 0.1 * (1.0 - np.eye(6))
    evidence = np.full((6, 6), 5.0)
    evidence[4, 5] = 0.1
    lines = describe_edges(GraphEstimate(tuple("abcdef"), precision, np.eye(6), evidence=evidence), shrunk=False)
    assert lines[11:] == [
        "    4 more whose sign is sure: see edges.csv",
        "    1 more may be absent or have the opposite sign, as noise alone could account for the evidence",
    ]


def test_edges_within_their_noise_are_not_listed_where_there_are_no_intervals() -> None:
    """Evidence of less than two standard errors is what noise alone makes."""
    precision = np.eye(3)
    precision[0, 1] = precision[1, 0] = precision[1, 2] = precision[2, 1] = -0.9
    evidence = np.array([[0.0, 5.0, 0.1], [5.0, 0.0, 1.2], [0.1, 1.2, 0.0]])
    lines = describe_edges(GraphEstimate(("a", "b", "c"), precision, np.eye(3), evidence=evidence), shrunk=False)

    assert lines == [
        "  2 of 3 possible edges; partial correlations of the surest, ranked by evidence; there are no intervals:",
        "    +0.900  a -- b",
        "    1 more may be absent or have the opposite sign, as noise alone could account for the evidence",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "+0.123"), (-0.0004, "-0.0004"), (2.2e-6, "+2e-06"), (0, "+0.000")]
)
def test_a_small_number_does_not_lose_its_digits(value: float, text: str) -> None:
    """No number but zero is printed as zero."""
    assert describe_number(value) == text


@pytest.fixture
def noisy(tmp_path: Path, key: Ed25519PrivateKey) -> Receipt:
    """Publish eight columns in which a chain of three is all there is, with a quarter of their variance of noise."""
    values = np.random.default_rng(1).normal(size=(3000, 8))
    values[:, 1] += values[:, 0]
    values[:, 2] += values[:, 1]
    table = pd.DataFrame(values / values.std(axis=0), columns=list("abcdefgh"))
    policy = make_policy({name: [-4, 4] for name in table}, sigma=10 ** (-6 / 20), unit="cell")
    return publish(table, policy, out=tmp_path / "noisy.tar", key=key)


@pytest.mark.parametrize("estimator", ["neighborhood", "scio", "clime", "ridge"])
def test_every_estimator_says_what_the_noise_hides(estimator: str, noisy: Receipt) -> None:
    """Strong edges that noise alone may have made are not listed by any estimator."""
    with open_bundle(noisy.path) as opened:
        found = learn_alternative([opened], estimator, alpha=0.02)
        text = describe_result(found, noisy.path.parent)
    assert found.graph is not None
    edges = found.graph.edges()
    sign = np.sign(edges["partial_correlation"])
    hidden = int(((sign * edges["ci_low"] <= 0.0) | (sign * edges["ci_high"] <= 0.0)).sum())

    assert hidden
    assert f"{hidden} more may be absent or have the opposite sign" in text
    assert text.count(" -- ") == min(10, len(edges) - hidden)
    assert {"evidence", "p_value"} <= set(edges)


def test_repairs_and_files_for_people_are_told_of_every_estimator(bundle: Receipt, tmp_path: Path) -> None:
    """What was done to an indefinite matrix is said; dp-learn's marker in its folder is nobody's result."""
    (tmp_path / "result").mkdir()
    for name in (".dpgraph-result.json", "edges.csv", "summary.json"):
        (tmp_path / "result" / name).touch()
    with open_bundle(bundle.path) as opened:
        found = learn_alternative([opened], "scio")
        found.summary.update(smallest_eigenvalue=-0.25, repair="maxnorm", notes=["a note"])
        lines = describe_result(found, tmp_path / "result").splitlines()

    assert "  the debiased matrix is indefinite (smallest eigenvalue -0.25) and was repaired by maxnorm" in lines
    assert "  a note" in lines
    assert lines[-1] == f"wrote {tmp_path}/result/: edges.csv, summary.json"


@pytest.mark.parametrize("estimator", ["ridge", "thresholded-covariance", "neighborhood"])
def test_every_estimator_is_told_with_the_share_of_the_noise(estimator: str, bundle: Receipt) -> None:
    """What noise there was is said of all estimators alike, and is in their summaries."""
    with open_bundle(bundle.path) as opened:
        learned = learn_graph(opened, alpha=0.1)
        found = Result([opened], summarize(learned, [opened]), learned.estimate, learned)
        alternative = learn_alternative([opened], estimator)
        usual, other = (describe_result(each, bundle.path.parent) for each in (found, alternative))

    (told,) = [line for line in usual.splitlines() if "of the published variances" in line]
    assert told in other.splitlines()
    assert found.summary["noise_share_of_variance"] == alternative.summary["noise_share_of_variance"]
