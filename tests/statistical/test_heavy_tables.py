"""Tables of heavy tails and gaps, published and tested: clipping and filling them makes no false edges."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_learn import learn_graph
from dp_learn.covariance.estimate import PooledCovariance, isserlis
from dp_learn.covariance.standard_errors import clean_forms
from dp_learn.inference.edges import EdgeInference, error_forms, fit_for_inference, infer_edges
from dp_publish import Policy, publish

SCALES = np.array([1e6, 1e3, 1.0, 1e-2, 1e-5, 10.0, 1e4])
NAMES = list("abcdefg")
RELATED = np.array([True, False, True, False, True, False, True])  # the others are independent of all


def make_table(rng: np.random.Generator) -> pd.DataFrame:
    """Return 5211 rows with tails of t(2.5) and gaps: four strongly related columns, and three independent ones."""
    rows = rng.standard_t(2.5, (5211, 7))
    rows[:, RELATED] = rng.standard_t(2.5, (5211, 1)) + 0.3 * rows[:, RELATED]
    rows[rng.random(rows.shape) < 0.02] = np.nan
    return pd.DataFrame(rows * SCALES, columns=NAMES)


def make_policy(name: str) -> Policy:
    """Return a policy whose bounds clip the tails, and whose noise has a third of the published variance."""
    entries = {
        column: {"bounds": [-4.0 * scale, 4.0 * scale], "missing": "drop"}
        for column, scale in zip(NAMES, SCALES.tolist(), strict=True)
    }
    privacy = {"unit": "row", "mu": 20.0}
    return Policy.model_validate({"dataset": {"name": name}, "privacy": privacy, "columns": entries})


def false_share(inference: EdgeInference) -> tuple[float, int]:
    """Return which share of the edges found at 5 % has an independent column, and how many are found."""
    found = np.triu(inference.q_values <= 0.05, 1)
    return float(found[~np.outer(RELATED, RELATED)].sum() / max(1, found.sum())), int(found.sum())


def ignoring_noise(pooled: PooledCovariance) -> EdgeInference:
    """Infer as if the debiased covariance were that of as many rows without noise."""
    theta = fit_for_inference(pooled).precision
    c = clean_forms(pooled, error_forms(pooled, theta))
    return infer_edges(pooled, theta, isserlis(c, c).times(pooled.sampling_factor))


@pytest.mark.slow
def test_clipped_tails_and_gaps_make_no_false_edges(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """In 60 tables dp-learn keeps the false discovery rate, and errors that ignore the noise do not."""
    rng = np.random.default_rng(14)
    learned, noiseless = [], []
    for index in range(60):
        receipt = publish(make_table(rng), make_policy(f"t{index}"), out=tmp_path / f"{index}.tar", key=key)
        with open_bundle(receipt.path) as bundle:
            found = learn_graph(bundle, fdr=0.05)
        assert found.estimate.inference is not None
        learned.append(false_share(found.estimate.inference))
        noiseless.append(false_share(ignoring_noise(found.sample.pooled)))
    rates = [np.mean([share for share, _ in each]) for each in (learned, noiseless)]
    print(rates, np.mean([count for _, count in learned]))  # noqa: T201

    assert rates[0] <= 0.055
    assert rates[1] > 0.3
    assert np.mean([count for _, count in learned]) > 5.5
