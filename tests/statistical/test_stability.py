"""How often draws find an edge is how often real releases of one table show it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import policy_with, publish_alone
from tests.statistical.worlds import names, random_graph

from dp_bundle import open_bundle
from dp_bundle.base.engine import Processes
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn import learn_graph
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.settings import Settings
from dp_learn.pipeline.stability import measure_stability

P, N_RELEASES, N_DRAWS = 12, 40, 100


@pytest.mark.slow
def test_frequencies_are_those_of_real_releases(tmp_path: Path) -> None:
    """Of 66 pairs at least nine in ten agree within 0.1, links and others."""
    rows = random_graph(P).draw(np.random.default_rng(8), 1500)
    columns = {name: {"bounds": [-4, 4]} for name in names(P)}
    policy = policy_with(columns, mu=1.0, release="covariance")
    counts, stability = np.zeros((P, P)), None
    for number in range(N_RELEASES):
        table = pd.DataFrame(rows, columns=list(names(P)))
        path = publish_alone(table, policy, tmp_path / f"{number}.tar", number)
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            counts += fit_graph(Sample([bundle_source(bundle)]), Settings()).precision != 0.0
            if stability is None:
                stability = measure_stability(learn_graph(bundle, error_bars=False), N_DRAWS, engine=Processes(1))
    assert stability is not None
    upper = np.triu_indices(P, 1)
    real, drawn = counts[upper] / N_RELEASES, stability.frequency[upper]
    print(np.sort(np.abs(real - drawn))[-8:], real[(real > 0.1) & (real < 0.9)])  # noqa: T201

    assert np.mean(np.abs(real - drawn) <= 0.1) >= 0.9
    assert np.mean(real >= 0.9) > 0.1
    assert np.mean(real <= 0.1) > 0.5
