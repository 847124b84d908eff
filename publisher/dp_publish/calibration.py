"""From what the publisher decided to the noise on each column, and to what that guarantees.

Calibration gives every column the same share of mu, so that width over sigma is equal across columns, unless sigma
itself was given. The guarantee is that of the Gaussian mechanism on the rows themselves: it rests on declared bounds
and on sigma, and no number in it is computed from the data.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from dp_bundle.errors import DataError, PolicyError
from dp_bundle.manifest import Column, Guarantee
from dp_bundle.noise import MIN_SIGMA
from dp_bundle.parts import batch_rows
from dp_publish.accounting import (
    mu_for_epsilon_delta,
    mu_for_rho,
    privacy_curve,
    rho_for_epsilon_delta,
    rho_for_mu,
    unit_mu,
)
from dp_publish.ledger import Cost
from dp_publish.policy import Policy, Privacy
from dp_publish.rows import noise_for
from dp_publish.table import ColumnType, Table

__all__ = ["account", "choose_columns", "set_noise"]

_MAX_NAME = 1_000  # characters; what a manifest takes

_ROUND_UP = 1 + 1e-12  # sigmas and printed mus are rounded to the safe side by far more than their float error


def choose_columns(table: Table, policy: Policy) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the columns to publish, each with its kind, and the names of those left out.

    Raises
    ------
    PolicyError
        The policy and the table do not fit, or a column to be published has no bounds.
    """
    unknown = [name for name in policy.columns if name not in table.types]
    if unknown:
        raise PolicyError(f"the policy names columns that the table does not have: {_listed(unknown)}")
    kinds: dict[str, str] = {}
    left_out: list[str] = []
    for name, declared in table.types.items():
        entry = policy.columns.get(name)
        if declared is ColumnType.OTHER or (entry is not None and entry.drop):
            left_out.append(name)
        elif entry is not None and entry.kind is not None:
            kinds[name] = entry.kind
        else:
            kinds[name] = "integer" if declared is ColumnType.INTEGER else "continuous"
    text = [name for name in left_out if (entry := policy.columns.get(name)) is not None and entry.bounds is not None]
    if text:
        raise PolicyError(f"the policy gives bounds to columns that are not published: {_listed(text)}")
    if not kinds:
        raise PolicyError("there is no numeric column to publish: every column is text, or dropped by the policy")
    if any(not 0 < len(name) <= _MAX_NAME for name in kinds):
        raise PolicyError(
            f"a column to be published has no name, or one of more than {_MAX_NAME} characters: rename it in the data, "
            "or set drop = true for it"
        )
    unbounded = [name for name in kinds if name not in policy.columns or policy.columns[name].bounds is None]
    if unbounded and policy.privacy.snr_db is None:
        raise PolicyError(
            f"bounds are missing for {_listed(unbounded)}: write a policy with `dp-publish policy DATA`, fill in the "
            "bounds from public knowledge (or set drop = true), and publish again"
        )
    return kinds, tuple(left_out)


def set_noise(table: Table, policy: Policy, kinds: dict[str, str]) -> tuple[Column, ...]:
    """Return the published columns with their bounds and calibrated noise.

    Parameters
    ----------
    table : Table
        Its values are read only where the strength is an SNR.
    policy : Policy
    kinds : dict of str to str
        The columns to publish and their kinds, as `choose_columns` gives them.
    """
    entries = {name: policy.columns.get(name) for name in kinds}
    bounds = {name: None if entry is None else entry.bounds for name, entry in entries.items()}
    for name, kind in kinds.items():
        given = bounds[name]
        if kind == "integer" and given is not None and not (given[0].is_integer() and given[1].is_integer()):
            raise PolicyError(f'column {name!r} is an integer column: give it integer bounds, or kind = "continuous"')
    sigmas = _sigmas(table, policy.privacy, kinds, bounds)
    _require_noise_on_integers(kinds, sigmas, derived=policy.privacy.snr_db is not None)
    return tuple(
        Column(
            name=name,
            kind="integer" if kind == "integer" else "continuous",
            description=entry.description if (entry := entries[name]) else "",
            unit=entry.unit if entry else "",
            bounds=bounds[name],
            bounds_obtained="none" if bounds[name] is None else "declared",
            missing=entry.missing if entry else "refuse",
            noise=noise_for(kind, sigmas[name], bounds[name]),
        )
        for name, kind in kinds.items()
    )


def account(privacy: Privacy, columns: tuple[Column, ...]) -> tuple[Cost, Guarantee | None, float | None]:
    """Return what the release costs, what it guarantees, and, where that is nothing, the conditional mu of a cell."""
    mus = [column.cell_mu for column in columns]
    continuous = all(column.kind == "continuous" for column in columns)
    if privacy.snr_db is not None:
        mu_cell = unit_mu("cell", mus)
        conditional_mu = mu_cell if math.isfinite(mu_cell) else None
        return Cost(privacy.unit, None, None, continuous), None, conditional_mu
    mu = unit_mu(privacy.unit, mus) * _ROUND_UP
    if privacy.sigma is None:  # what was asked for, which the sigmas, rounded up, keep to
        mu = min(mu, _target_mu(privacy, continuous=continuous))
    public = ["the number and the order of the rows"]
    dropping = [column.name for column in columns if column.missing == "drop"]
    if dropping:
        public.append(f"which rows have no value in {_listed(dropping)}")
    guarantee = Guarantee(
        unit=privacy.unit,
        mu=mu if continuous else None,
        rho=rho_for_mu(mu),
        epsilon_delta=privacy_curve(mu, continuous=continuous),
        accountant="gaussian-dp" if continuous else "zero-concentrated-dp",
        public=tuple(public),
    )
    cost = Cost(privacy.unit, unit_mu("cell", mus) * _ROUND_UP, unit_mu("row", mus) * _ROUND_UP, continuous)
    return cost, guarantee, None


def _require_noise_on_integers(kinds: dict[str, str], sigmas: dict[str, float], *, derived: bool) -> None:
    """Refuse integer columns with noise that is practically none; sigmas taken from the data are raised instead."""
    for name, kind in kinds.items():
        if kind == "integer" and sigmas[name] < MIN_SIGMA:
            if not derived:
                raise PolicyError(
                    f"integer column {name!r} would get noise of sigma {sigmas[name]:.3g}, which hardly ever moves a "
                    f'value: choose a strength that gives at least {MIN_SIGMA:g}, or kind = "continuous"'
                )
            sigmas[name] = MIN_SIGMA


def _sigmas(
    table: Table, privacy: Privacy, kinds: dict[str, str], bounds: dict[str, tuple[float, float] | None]
) -> dict[str, float]:
    """Calibrate: each column gets the same mu, so that width over sigma is equal, unless sigma itself was given."""
    if privacy.snr_db is not None:
        ratio = 10 ** (-privacy.snr_db / 20)
        return {name: ratio * deviation for name, deviation in _standard_deviations(table, kinds, bounds).items()}
    if privacy.sigma is not None:
        return dict.fromkeys(kinds, privacy.sigma)
    mu = _target_mu(privacy, continuous="integer" not in kinds.values())
    column_mu = mu if privacy.unit == "cell" else mu / math.sqrt(len(kinds))
    return {
        name: (limits[1] - limits[0]) / column_mu * _ROUND_UP for name, limits in bounds.items() if limits is not None
    }


def _target_mu(privacy: Privacy, *, continuous: bool) -> float:
    if privacy.mu is not None:
        return privacy.mu
    if privacy.rho is not None:
        return mu_for_rho(privacy.rho)
    epsilon, delta = privacy.epsilon or 0.0, privacy.delta or 0.0
    return mu_for_epsilon_delta(epsilon, delta) if continuous else mu_for_rho(rho_for_epsilon_delta(epsilon, delta))


def _standard_deviations(
    table: Table, kinds: dict[str, str], bounds: dict[str, tuple[float, float] | None]
) -> dict[str, float]:
    """Return every column's standard deviation after clipping, in one pass; only strength by snr_db may ask."""
    n_rows, mean, scatter = np.zeros(len(kinds)), np.zeros(len(kinds)), np.zeros(len(kinds))
    limits = [(-math.inf, math.inf) if bounds[name] is None else bounds[name] for name in kinds]
    for batch in table.read(kinds, batch_rows(len(kinds))):
        for index, (low, high) in enumerate(cast(list[tuple[float, float]], limits)):
            values = batch.column(index).to_numpy(zero_copy_only=False).astype(float)
            values = np.clip(values[~np.isnan(values)], low, high)
            if len(values):
                total = n_rows[index] + len(values)
                with np.errstate(over="ignore", invalid="ignore"):  # infinite values are refused below
                    shift = values.mean() - mean[index]
                    scatter[index] += values.var() * len(values) + shift**2 * n_rows[index] * len(values) / total
                    mean[index] += shift * len(values) / total
                n_rows[index] = total
    deviations = dict(zip(kinds, np.sqrt(scatter / np.maximum(n_rows, 1)).tolist(), strict=True))
    constant = [name for name, deviation in deviations.items() if not 0 < deviation < math.inf]
    if constant:
        raise DataError(
            f"snr_db needs columns that vary and are finite, unlike {_listed(constant)}: set drop = true for them"
        )
    return deviations


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
