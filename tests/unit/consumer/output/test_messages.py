"""The lines that dp-learn prints of a graph."""

import html
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle import open_bundle
from dp_bundle.base.errors import ParameterError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.output.estimator_results import learn_alternative
from dp_learn.output.messages import describe_edges, describe_nodes, describe_number, describe_result
from dp_learn.output.page.links import edges_tables
from dp_learn.output.page.report import make_report
from dp_learn.pipeline.graph import GraphEstimate
from dp_publish import publish

GOLDEN = Path(__file__).parents[3] / "golden"


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
    found, listed, unsure = describe_edges(graph, shrunk=False)

    assert found.startswith("  5 of 6 ")
    assert listed.endswith("  a -- b")
    assert unsure.startswith("    4 more ")
    assert len(describe_edges(graph_with({(0, 1): (-1, 1), (0, 2): (-1, 0.9)}), shrunk=True)) == 1


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
    assert 'b 1.20 (1.10 to 1.30), then "c d" 0.80 (0.70 to 0.90)' in strength
    assert "a 0.50 (0.40 to 0.60), then " in predicted
    assert ["overlap" in line for line in (strength, predicted)] == [False, True]
    unknown = nodes | {name: np.full(3, np.nan) for name in ("predictability_low", "predictability_high")}
    assert describe_nodes(unknown | {"strength": np.array([2.0, 1.2, 0.8])}) == []


def test_a_weight_outside_its_interval_is_explained_and_no_sure_edge_is_left_out() -> None:
    """What is in brackets is another estimate; of edges beyond the first ten the sure and the unsure are counted."""
    outside = graph_with({(0, 1): (0.5, 0.8), (2, 3): (0.2, 0.6)})
    assert "outside its interval" in describe_edges(outside, shrunk=False)[-1]
    assert "penalty" in describe_edges(outside, shrunk=True)[-1]

    precision = np.eye(6) - 0.1 * (1.0 - np.eye(6))
    evidence = np.full((6, 6), 5.0)
    evidence[4, 5] = 0.1  # less than two standard errors, which noise alone makes
    lines = describe_edges(GraphEstimate(tuple("abcdef"), precision, np.eye(6), evidence=evidence), shrunk=False)
    assert len(lines) == 13
    assert [line.split(" more")[0].strip() for line in lines[11:]] == ["4", "1"]


def test_strong_edges_come_first_and_are_counted() -> None:
    """In the lines and on the page, with those of just the limit, each kind by its evidence; 0 tells none apart."""
    precision, evidence = np.eye(4), np.zeros((4, 4))
    precision[0, 1:] = precision[1:, 0] = -0.05, -0.1, 0.3
    evidence[0, 1:] = 9.0, 8.0, 7.0
    graph = GraphEstimate(tuple("abcd"), precision, np.eye(4), evidence=evidence)
    for at_least, order, counts in (
        (0.1, "cdb", "2 of at least 0.1 and 1 weaker one; "),
        (0.0, "bcd", "possible edges; "),
    ):
        found, *lines = describe_edges(graph, shrunk=False, at_least=at_least)
        assert counts in found
        assert "".join(line[-1] for line in lines) == order

    strong, weaker = edges_tables(graph, 0.1)
    assert strong.columns[1].values == ["c", "d"]
    assert strong.caption.startswith("2 links of at least 0.1 in size")
    assert weaker.caption.startswith("1 weaker link,")


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, "+0.123"), (-0.0004, "-0.0004"), (2.2e-6, "+2e-06"), (0, "+0.000")]
)
def test_a_small_number_does_not_lose_its_digits(value: float, text: str) -> None:
    """No number but zero is printed as zero."""
    assert describe_number(value) == text


@pytest.mark.parametrize("estimator", ["neighborhood", "ridge"])
def test_every_estimator_says_what_the_noise_hides(estimator: str, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Strong edges that noise or chance alone may have made are not listed, but counted; so says the page.

    The page has each sentence that the terminal has before the edges.
    """
    values = np.random.default_rng(1).normal(size=(3000, 8))
    values[:, 1:3] += values[:, :1]
    table = pd.DataFrame(values, columns=list("abcdefgh"))
    policy = make_policy({name: [-6, 6] for name in table}, sigma=0.5, unit="cell")
    with open_bundle(publish(table, policy, out=tmp_path / "noisy.tar", key=key).path) as opened:
        found = learn_alternative([opened], estimator, alpha=0.02)
        text = describe_result(found, tmp_path)
    edges = found.graph.edges()
    sign = np.sign(edges["partial_correlation"])
    intervals = (sign * edges["ci_low"] <= 0.0) | (sign * edges["ci_high"] <= 0.0)
    hidden = int((intervals | (edges["q_value"] > 0.05)).sum())

    assert hidden > intervals.sum() > 0
    assert f"{hidden} more may be absent" in text
    page = html.unescape(make_report(found, ""))
    assert f"{hidden} of the {len(edges)} links may be absent" in page
    said = [line[3:].removesuffix(".") for line in text.partition("possible edges")[0].splitlines()[2:-1]]
    assert len(said) > 1
    assert all(sentence in page for sentence in said if not sentence.startswith(f"{estimator}, alpha"[1:]))
    assert text.count(" -- ") == min(10, len(edges) - hidden)


def test_scores_are_no_classes() -> None:
    """A column of normal scores has no 0 and 1 that a discriminant could tell apart."""
    with (
        open_bundle(GOLDEN / "bundle-copula.tar", UnsafeTrustAnyone()) as opened,
        pytest.raises(ParameterError, match="not one of normal scores"),
    ):
        learn_alternative([opened], "lda", alpha=None, target="alcohol")
