"""The lines that dp-learn prints of a graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dp_bundle import open_bundle
from dp_learn import learn_graph
from dp_learn.alternatives import learn_alternative
from dp_learn.statements import describe_alternative, describe_learned
from dp_learn.summary import summarize
from dp_publish import Receipt


def test_edges_of_any_strength_are_counted_and_not_listed(bundle: Receipt) -> None:
    """An interval from -1 to 1 says nothing of an edge, so the edge is not among those shown as the surest."""
    with open_bundle(bundle.path) as opened:
        learned = learn_graph(opened, alpha=0.01)
        inference = learned.estimate.inference
        assert inference is not None
        doubtful = np.ones_like(inference.estimate)
        doubtful[:2, 2:] = doubtful[2:, :2] = 1e9
        errors = replace(inference.errors, products=inference.errors.products * doubtful)
        hidden = replace(inference, standard_error=inference.standard_error * np.sqrt(doubtful), errors=errors)
        learned = replace(learned, estimate=replace(learned.estimate, inference=hidden))
        table = learned.estimate.edges()
        wide = int((table["ci_high"] - table["ci_low"] >= 1.999).sum())
        text = describe_learned(learned, summarize(learned, opened), [opened], bundle.path)

    assert wide
    assert f"{wide} of them may be of any strength and sign" in text
    assert "-1.000 to +1.000" not in text
    assert "height -- weight" in text
    assert text.count(" -- ") == len(table) - wide


@pytest.mark.parametrize("estimator", ["ridge", "thresholded-covariance", "neighborhood"])
def test_every_estimator_is_told_with_the_share_of_the_noise(estimator: str, bundle: Receipt) -> None:
    """What noise there was is said of all estimators alike, and is in their summaries."""
    with open_bundle(bundle.path) as opened:
        learned = learn_graph(opened, alpha=0.1)
        found = learn_alternative([opened], estimator)
        usual = describe_learned(learned, summarize(learned, opened), [opened], bundle.path)
        other = describe_alternative(found, estimator, [opened], bundle.path.parent)

    (told,) = [line for line in usual.splitlines() if "of the published variances" in line]
    assert told in other.splitlines()
    assert found.summary["noise_share_of_variance"] == summarize(learned, opened)["noise_share_of_variance"]
