"""What is released where nobody says so: second moments, whatever the strength."""

import numpy as np
import pandas as pd
from tests.conftest import policy_with

from dp_publish.forecast.outlook import forecast
from dp_publish.forecast.plan import choose_release


def test_a_weaker_guarantee_never_shows_less() -> None:
    """From mu = 0.1 to 100 the release is of one kind, in which smaller partial correlations are seen each time."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 8)), columns=[*"abcdefgh"])
    seen = []
    for mu in np.geomspace(0.1, 100.0, 13):
        prepared, why = choose_release(table, policy_with({}, mu=mu))
        kinds = dict.fromkeys(table, "continuous")
        shown = forecast(prepared.policy, kinds, len(table)).shown.clearest
        seen.append(np.inf if shown is None else shown)
        assert why.startswith("second moments")
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > 2.0 * seen[-1]
