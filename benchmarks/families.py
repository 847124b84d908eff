"""Coverage, bias and false discoveries of whole releases, by what their columns are like.

    OPENBLAS_NUM_THREADS=1 python benchmarks/families.py auto|raw|scores [--draws 100] [--families ...]
        [--columns 10 30] [--rows 1000 10000] [--mu 1 3]

Every draw publishes a new table and learns from the file, as the commands do. Its rows are functions of normal
variables with about p/2 links of .3 and p/6 of .15, along a chain.
What is estimated is, exactly: the partial correlations of columns that stand as values, pulled in to the ends that the
release states, of the normal variables behind those that stand as scores, and of scores that stay as they are (of a
column with rare ones). Bounds are declared for whole numbers alone.

For each cell: the share of 95 % intervals that hold the true value, of links and of all other pairs; for targets above
.2, the mean of estimate less truth, in standard errors; false discoveries of the list at 5 %; draws without intervals.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy import stats

from dp_bundle import Bundle, DpGraphError, open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn import learn_graph
from dp_learn.covariance.scores import kept_steps
from dp_publish import Policy, publish

Floats = NDArray[np.float64]
Family = Callable[[Floats], Floats]

_TERMS = 30
_ZEROS = 0.8  # of counts; the others are 1 and what a Poisson variable of mean 2 is
_GRID = np.linspace(-8.5, 8.5, 100_001)


def _events(share: float) -> Family:
    return lambda z: np.asarray(z > stats.norm.isf(share), dtype=float)


def _counts(z: Floats) -> Floats:
    share = np.clip((stats.norm.cdf(z) - _ZEROS) / (1 - _ZEROS), 0.0, 1 - 1e-12)
    return np.where(stats.norm.cdf(z) > _ZEROS, 1.0 + stats.poisson.ppf(share, 2.0), 0.0)


FAMILIES: dict[str, Family] = {
    "gaussian": lambda z: z,
    "t4": lambda z: np.sign(z) * stats.t.isf(stats.norm.sf(np.abs(z)), 4),
    "lognormal": np.exp,
    "exponential": lambda z: np.asarray(stats.expon.isf(stats.norm.sf(z))),
    "likert": lambda z: 1.0 + np.searchsorted([-1.2, -0.4, 0.4, 1.2], z),
    "counts": _counts,
    "event 5 %": _events(0.05),
    "event 2 %": _events(0.02),
    "event 1 %": _events(0.01),
}
MIXED = ["gaussian", "lognormal", "likert", "counts", "event 5 %", "t4"]


def columns_of(family: str, p: int) -> list[str]:
    """Return the family of each column."""
    return [MIXED[place % len(MIXED)] for place in range(p)] if family == "mixed" else [family] * p


def section(family: str) -> dict[str, Any]:
    """Return what a policy says of a column."""
    if family.startswith("event"):
        return {"kind": "boolean"}
    if family in ("likert", "counts"):
        return {"kind": "integer", "bounds": [1, 5] if family == "likert" else [0, 60]}
    return {"kind": "continuous"}


def latent_correlations(p: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the correlations of the normal variables, and which pairs are linked."""
    links = np.zeros(p - 1)
    links[::2], links[1::6] = 0.3, 0.15
    precision = np.eye(p) - np.diag(links, 1) - np.diag(links, -1)
    covariance = np.linalg.inv(precision)
    roots = np.sqrt(np.diagonal(covariance))
    return covariance / np.outer(roots, roots), np.abs(precision) > 0


def coefficients(change: Family) -> Floats:
    """Return the normalized Hermite coefficients of a function of a standard normal variable, from order 1 on."""
    weights = stats.norm.pdf(_GRID) * (_GRID[1] - _GRID[0])
    values = np.asarray(change(_GRID), dtype=float)
    values = values - weights @ values
    values /= np.sqrt(weights @ values**2)
    before, now, found = np.zeros_like(_GRID), np.ones_like(_GRID), []
    for order in range(1, _TERMS + 1):
        before, now = now, (_GRID * now - np.sqrt(order - 1) * before) / np.sqrt(order)
        found.append(weights @ (values * now))
    return np.array(found)


def partials(correlations: Floats) -> Floats:
    """Return the partial correlations."""
    return partials_of(np.linalg.inv(correlations))


def partials_of(precision: Floats) -> Floats:
    """Return the partial correlations that a precision matrix holds."""
    roots = np.sqrt(np.diagonal(precision))
    return -precision / np.outer(roots, roots)


def targets(bundle: Bundle, families: list[str], correlations: Floats, known: dict[Any, Floats]) -> Floats:
    """Return the correlations that the release is of."""
    weak = {*kept_steps(bundle, ())}
    found = []
    for column, family in zip(bundle.release.columns, families, strict=True):
        change = FAMILIES[family]
        key: tuple[str, ...] = (family,)
        if column.transform is not None:
            key = (family, "scores") if column.name in weak else ("gaussian",)
            change = (lambda z, f=change: stats.rankdata(f(z))) if column.name in weak else FAMILIES["gaussian"]
        elif (ends := bundle.release.ends_of(column)) is not None:
            key = (family, *map(str, ends))
            change = lambda z, f=change, ends=ends: np.clip(f(z), *ends)  # noqa: E731
        if key not in known:
            known[key] = coefficients(change)
        found.append(known[key])
    series = np.array(found)
    powers = correlations[..., None] ** np.arange(1, _TERMS + 1)
    full: Floats = np.einsum("ik,jk,ijk->ij", series, series, powers)
    np.fill_diagonal(full, 1.0)
    return full


def draw(
    family: str, scale: str, sizes: tuple[int, int, float], seed: int, known: dict[Any, Floats]
) -> dict[str, float]:
    """Publish a table and learn from it; return what is measured, without intervals nothing but that."""
    p, n_rows, mu = sizes
    families = columns_of(family, p)
    correlations, linked = latent_correlations(p)
    rng = np.random.default_rng([seed, p, n_rows])
    normal = rng.normal(size=(n_rows, p)) @ np.linalg.cholesky(correlations).T
    table = pd.DataFrame({f"x{place}": FAMILIES[each](normal[:, place]) for place, each in enumerate(families)})
    sections = {f"x{place}": section(each) for place, each in enumerate(families)}
    for name, stated in sections.items():
        table[name] = table[name].astype({"boolean": bool, "integer": "int64"}.get(stated["kind"], float))

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["DPGRAPH_HOME"] = str(place / "home")
        privacy = {"scale": scale, "unit": "row", "mu": mu}
        policy = Policy.model_validate(
            {"dataset": {"name": f"{family} {seed}"}, "privacy": privacy, "columns": sections}
        )
        publish(table, policy, out=place / "t.tar", key=Ed25519PrivateKey.generate())
        with open_bundle(place / "t.tar", UnsafeTrustAnyone()) as bundle:
            truth = targets(bundle, families, correlations, known)
            inference = learn_graph(bundle).estimate.inference
    if inference is None:
        return {"refused": 1.0}
    kept = [list(table).index(name) for name in inference.columns]  # others were too much noise
    upper = np.triu_indices(len(kept), 1)
    true, edge = partials(truth[np.ix_(kept, kept)])[upper], linked[np.ix_(kept, kept)][upper]
    bars = inference.error_bars_at(upper)
    held = (bars["ci_low"] <= true) & (true <= bars["ci_high"])
    missed = partials_of(inference.estimate)[upper] - true
    strong, found = np.abs(true) > 0.2, bars["q_value"] <= 0.05
    return {
        "refused": 0.0,
        "links": held[edge].mean() if edge.any() else np.nan,
        "others": held[~edge].mean(),
        "bias": float(np.mean((missed * np.sign(true))[strong] / bars["standard_error"][strong]))
        if strong.any()
        else np.nan,
        "false": (found & ~edge).sum() / max(1, found.sum()),
        "power": found[edge].mean() if edge.any() else np.nan,
    }


def main() -> None:
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scale", choices=["auto", "raw", "scores"])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--families", nargs="*", default=[*FAMILIES, "mixed"])
    parser.add_argument("--columns", nargs="*", type=int, default=[10, 30])
    parser.add_argument("--rows", nargs="*", type=int, default=[1000, 10_000])
    parser.add_argument("--mu", nargs="*", type=float, default=[1.0, 3.0])
    given = parser.parse_args()

    known: dict[Any, Floats] = {}
    print(
        f"{'family':12}{'p':>4}{'n':>7}{'mu':>4}   links covered  others covered   bias  false   found  none",
        flush=True,
    )
    for family in given.families:
        for sizes in ((p, n, mu) for p in given.columns for n in given.rows for mu in given.mu):
            try:
                found = pd.DataFrame([draw(family, given.scale, sizes, seed, known) for seed in range(given.draws)])
            except DpGraphError as error:
                print(f"{family:12}{sizes[0]:4}{sizes[1]:7}{sizes[2]:4g}   {error}"[:150], flush=True)
                continue
            means, errors = found.mean(), found.std() / np.sqrt(given.draws)
            shares = "   ".join(
                f"{100 * means[name]:5.1f} +- {100 * errors[name]:3.1f}" for name in ("links", "others")
            )
            print(
                f"{family:12}{sizes[0]:4}{sizes[1]:7}{sizes[2]:4g}    {shares}  {means['bias']:6.2f}"
                f"{100 * means['false']:7.1f}{100 * means['power']:8.1f}{int(found['refused'].sum()):6}",
                flush=True,
            )


if __name__ == "__main__":
    main()
