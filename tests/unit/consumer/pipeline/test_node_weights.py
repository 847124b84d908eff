"""Weights of the penalty in one stage: equal for numbers, in proportion to errors where nodes have several columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from tests.unit.consumer.pipeline.mixed import mixed_sample

from dp_bundle import open_bundle
from dp_bundle.base.errors import ParameterError
from dp_learn import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV, learn_graph
from dp_learn.covariance.sample import Sample
from dp_learn.output.summary import summarize
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.graph import labelled_edges
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.nodes import block_errors, block_weights
from dp_learn.pipeline.settings import Fit, Settings
from dp_publish import Policy, publish

N_ROWS = 6000
MANY = np.array([0.55, *np.full(15, 0.03)])


def numbers() -> dict[str, NDArray[np.generic]]:
    """Return four columns of numbers, of which two are related."""
    values = np.random.default_rng(1).normal(size=(N_ROWS, 4))
    values[:, 1] = 0.2 * values[:, 0] + values[:, 1]
    return {f"x{place}": values[:, place] for place in range(4)}


def with_categories() -> dict[str, NDArray[np.generic]]:
    """Return these numbers with two categories of sixteen levels, most of them rare."""
    rng = np.random.default_rng(2)
    return {**numbers(), **{name: rng.choice(len(MANY), N_ROWS, p=MANY) for name in ("g", "h")}}


def test_links_of_categories_have_no_sign() -> None:
    """In the graph that other software reads, too: theirs is 0, and that of two numbers 1 or -1."""
    group = np.random.default_rng(3).integers(0, 3, N_ROWS)
    sample = mixed_sample({**numbers(), "g": group, "y": numbers()["x0"] - group}, 0.2)
    sources, targets, found = labelled_edges(learn_sample(sample, Settings()).estimate)
    signs = {frozenset(ends): sign for *ends, sign in zip(sources, targets, found["sign"], strict=True)}
    assert signs[frozenset(("g", "y"))] == 0
    assert abs(signs[frozenset(("x0", "x1"))]) == 1


def fit_with(weights: str, sample: Sample) -> Fit:
    """Return the fit with these weights."""
    return fit_graph(sample, Settings(weights=weights))


def test_auto_is_equal_for_numbers_to_the_bit() -> None:
    """By EBIC, a table of numbers is learned as with equal weights, which leave the default nothing to choose."""
    sample = mixed_sample(numbers(), 0.5)
    auto, equal = fit_graph(sample, Settings(select="ebic")), fit_with("equal", sample)

    assert auto.weights is None
    assert auto.weighting == equal.weighting == "equal"
    assert auto.solution.alpha == equal.solution.alpha
    np.testing.assert_array_equal(auto.precision, equal.precision)


def test_auto_is_noise_where_nodes_have_several_columns() -> None:
    """Rare levels do not keep out a link between numbers, as they do with equal weights, which stay possible."""
    sample = mixed_sample(with_categories(), 0.35)
    auto, noise = fit_graph(sample, Settings(select="ebic")), fit_with("noise", sample)
    equal = fit_with("equal", sample)
    first, second = auto.pooled.columns.index("x0"), auto.pooled.columns.index("x1")

    np.testing.assert_array_equal(auto.precision, noise.precision)
    assert auto.weights is not None
    assert auto.precision[first, second] != 0.0
    assert equal.weights is None
    assert equal.precision[first, second] == 0.0


def test_weights_leave_alpha_its_meaning() -> None:
    """Without noise they are those of an equal penalty between nodes; with it, the median entry's is 1."""
    clean, noisy = (fit_graph(mixed_sample(with_categories(), sigma), Settings()) for sigma in (0.0, 0.35))
    for fit in (clean, noisy):
        sizes = fit.nodes.sizes
        weights = block_weights(block_errors(fit.pooled, fit.nodes), sizes)
        upper = np.triu_indices(len(sizes), 1)
        each = (weights / np.sqrt(np.outer(sizes, sizes)))[upper]

        assert np.median(each) == pytest.approx(1.0)
        assert np.ptp(each) == pytest.approx(0.0, abs=1e-12) if fit is clean else each.max() > 3.0 * each.min()


def test_names_are_checked_and_auto_is_the_default() -> None:
    """The estimators have the default of the settings, which know three names."""
    assert Settings().weights == DebiasedGraphicalLasso().weights == DebiasedGraphicalLassoCV().weights == "auto"
    assert Settings(weights="equal").weights_for(blocks=True) == "equal"
    assert Settings(weights="noise").weights_for(blocks=False) == "noise"
    with pytest.raises(ParameterError, match="auto, equal, noise, or a matrix"):
        Settings(weights="odd")


@pytest.mark.parametrize("category", [False, True])
@pytest.mark.parametrize("asked", ["auto", "equal", "noise"])
def test_the_summary_says_which_weights_were_used(
    asked: str, category: bool, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Of auto it says what that came to: where the noise is small, the evidence."""
    columns = {"x": np.linspace(0.0, 1.0, 300), "y": np.arange(300) % 7, "kind": np.tile(["a", "b", "c"], 100)}
    table = pd.DataFrame(columns)
    of_kind = {"kind": {"kind": "category", "categories": ["a", "b", "c"]}} if category else {}
    columns = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 6]}, **of_kind}
    privacy = {"unit": "cell", "mu": 50}
    policy = Policy.model_validate({"dataset": {"name": "w"}, "privacy": privacy, "columns": columns})
    receipt = publish(table[list(columns)], policy, out=tmp_path / "w.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        summary = summarize(learn_graph(bundle, weights=asked), [bundle])

    assert summary["weights"] == ("evidence" if asked == "auto" else asked)
