"""Columns that the noise would drown, judged by the real spread of their values: for the publisher alone.

The forecast proper assumes a spread and reads no value. Before a release is paid for, the first rows show whether the
assumption was right: long-tailed values may fill so little of generous bounds that a researcher sees nothing of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.data.first_rows import Glance
from dp_publish.forecast.assumptions import calibrate_assumed
from dp_publish.forecast.power import drowns, moments_error
from dp_publish.policy.coded_columns import blocks_of, gap_columns, raw_names
from dp_publish.policy.model import Policy


def find_drowned(seen: Glance, policy: Policy, kinds: Mapping[str, str], count_rows: Callable[[], int]) -> list[str]:
    """Return the columns whose variance in the first rows would not stand clear of its own error.

    A category is among them if that is so of all of its levels; gaps that are published do not count.

    Parameters
    ----------
    seen : Glance
        The first rows.
    policy : Policy
        Bounds and strength; resolved. Columns whose bounds are yet to be found are passed over.
    kinds : mapping of str to str
        The columns, as `choose_columns` gives them.
    count_rows : callable
        Returns the number of rows; called only where that is public.
    """
    privacy = policy.privacy
    ball = privacy.release == "rows" and privacy.l2_radius is not None
    if not seen.values or privacy.snr_db is not None or not privacy.neighbours.n_rows_public or ball:
        return []
    spreads = {
        name: _spread(values, bounds) for name, values in seen.values.items() if (bounds := policy.column(name).bounds)
    }
    of_gaps = gap_columns(policy.sources)
    spreads = {name: spread for name, spread in spreads.items() if spread > 0.0 and name not in of_gaps}
    n_rows = count_rows()
    errors = _errors_in_rows if privacy.release == "rows" else _errors_in_moments
    drowned = {name: drowns(error) for name, error in errors(spreads, policy, kinds, n_rows).items()}
    blocks = blocks_of(policy.sources)
    shown = {blocks[name] for name, hidden in drowned.items() if name in blocks and not hidden}
    hidden = [blocks.get(name, name) for name, hidden in drowned.items() if hidden]
    return list(dict.fromkeys(name for name in hidden if name not in shown))


def describe_drowned(names: Sequence[str], policy: Policy, n_rows: int) -> str:
    """Return the warning for the publisher of a release by this policy."""
    narrow = "narrow the bounds"
    if policy.privacy.release == "covariance" and policy.privacy.mechanism in ("auto", "two-round"):
        narrow = "narrow the bounds or declare center and scale"
    return (
        f"the noise would hide {listed(list(names))}, as the values in the first {n_rows:,} rows fill too little of "
        f"the bounds: leave {'it' if len(names) == 1 else 'them'} out, protect less, or {narrow} if public knowledge, "
        "not these rows, allows it"
    )


def refuse_drowned(names: Sequence[str], policy: Policy, kinds: Mapping[str, str], n_rows: int) -> None:
    """Refuse a release of which no more than one column could be seen.

    Raises
    ------
    PolicyError
        The release would show too little; names the hidden columns.
    """
    n_cells = len(raw_names(kinds, policy.sources))
    if n_cells - len(names) < min(2, n_cells):
        raise PolicyError(f"{describe_drowned(names, policy, n_rows)}; or publish all the same with --anyway")


def _spread(values: np.ndarray, bounds: tuple[float, float]) -> float:
    """Return the standard deviation of the clipped values as a share of the width of their bounds."""
    return float(np.clip(values, *bounds).std() / (bounds[1] - bounds[0])) if len(values) else 0.0


def _errors_in_rows(
    spreads: Mapping[str, float], policy: Policy, kinds: Mapping[str, str], n_rows: int
) -> dict[str, float]:
    """Return the standard error of a correlation near zero between two columns like each, from a release of rows."""
    columns, _ = calibrate_assumed(policy, kinds)
    ratios = {
        column.name: column.noise_variance / (spreads[column.name] * column.width) ** 2
        for column in columns
        if column.name in spreads
    }
    return {name: (1.0 + ratio) / math.sqrt(n_rows) for name, ratio in ratios.items()}


def _errors_in_moments(
    spreads: Mapping[str, float], policy: Policy, kinds: Mapping[str, str], n_rows: int
) -> dict[str, float]:
    """Return the same from a release of second moments; nothing where its noise has no variance of its own."""
    mechanism = set_mechanism(policy, kinds, lambda: n_rows)
    if mechanism.forecast_as is not None:
        return {}
    return {name: moments_error(n_rows, mechanism.correlation_noise(n_rows, own)) for name, own in spreads.items()}
