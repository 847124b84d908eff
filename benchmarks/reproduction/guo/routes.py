"""Privacy against utility: rows and their covariance, published with the same guarantee for a person's whole row.

Rows of a chain of 10 columns of unit variance whose neighbours have partial correlations of 0.4 to 0.45, with bounds of
four standard deviations. Both releases go through the publisher and the researcher's reader, as the commands do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_learn.pipeline.learn import infer_if_possible
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.sampling.keystream import insecure_keystream
from interval_coverage import chain_precision
from reproduction.data_sets import Floats
from reproduction.figures import BLUE, GREEN, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve, rank
from reproduction.setting import Setting, seed
from reproduction.simulation import gaussian_rows
from reproduction.tables import markdown_table, number, short

N_ROWS = (1000, 10_000, 100_000)
MUS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
BOUND = 4.0  # standard deviations
ROUTES = {"covariance": {"release": "covariance"}, "rows": {"release": "rows", "unit": "row"}}


def _jobs(setting: Setting) -> Iterator[tuple[int, int]]:
    return ((n_rows, repetition) for n_rows in N_ROWS for repetition in setting.repetitions(20, 2))


def _measure(n_rows: int, repetition: int) -> list[dict[str, Any]]:
    theta = chain_precision()
    words = ("guo_routes", n_rows, repetition)
    rows = gaussian_rows(n_rows, theta, np.random.default_rng(seed(*words)))
    records = []
    for mu in MUS:
        for route in ROUTES:
            record: dict[str, Any] = {"n_rows": n_rows, "mu": mu, "route": route}
            sample = _released(rows, route, mu, seed(*words, mu, route)[-1] + repetition)
            records.append(record | _score(sample, theta))
    return records


def _released(rows: Floats, route: str, mu: float, noise_seed: int) -> Sample:
    """Return what a researcher reads from a release of the rows."""
    frame = pd.DataFrame(rows, columns=[f"x{index}" for index in range(rows.shape[1])])
    columns = {name: {"kind": "continuous", "bounds": [-BOUND, BOUND]} for name in frame}
    privacy = ROUTES[route] | {"mu": mu}
    policy = Policy.model_validate({"dataset": {"name": "chain"}, "privacy": privacy, "columns": columns})
    with tempfile.TemporaryDirectory() as folder:
        out, ledger = Path(folder) / "chain.tar", Ledger(Path(folder) / "ledger")
        keystream = insecure_keystream(noise_seed)
        publish(frame, policy, out=out, key=Ed25519PrivateKey.generate(), ledger=ledger, keystream=keystream)
        with open_bundle(out, UnsafeTrustAnyone()) as bundle:
            return Sample([bundle_source(bundle)])


def _score(sample: Sample, theta: Floats) -> dict[str, float]:
    """Return how well a release shows the covariance, the graph and its weights; what cannot be had is left out."""
    truth, covariance = above(theta) != 0.0, np.linalg.inv(theta)
    found = {
        "error": float(np.linalg.norm(sample.pooled.covariance - covariance) / np.linalg.norm(covariance)),
        "answered": 0.0,
        "auc": 0.5,
        "f1": 0.0,
    }
    try:
        found["auc"] = area_under_curve(truth, rank(sample, "evidence").scores)
        edges = rank(sample, "default").edges
        found["f1"] = 2.0 * (edges & truth).sum() / (edges.sum() + truth.sum())
        inference, _ = infer_if_possible(sample, sample.pooled, np.arange(len(theta)))
    except DpGraphError:
        return found
    if inference is None:
        return found
    root = np.sqrt(np.diagonal(theta))
    weights = above(-theta / np.outer(root, root))
    bars = inference.error_bars_at(np.triu_indices(len(theta), 1))
    covered = (bars["ci_low"] <= weights) & (weights <= bars["ci_high"])
    return found | {"answered": 1.0, "covered": covered[truth].mean(), "covered_others": covered[~truth].mean()}


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    table = cells.astype({"mu": float}).set_index(["n_rows", "mu", "route", "measure"])["mean"]

    def of_both(n_rows: int, mu: float, measure: str, digits: int = 3) -> list[str]:
        return [number(table.get((n_rows, mu, route, measure), np.nan), digits) for route in ROUTES]

    utility, coverage = [], []
    for n_rows in N_ROWS:
        for mu in MUS:
            head = [f"{n_rows:,}", f"{mu:g}"]
            errors = [short(table[(n_rows, mu, route, "error")]) for route in ROUTES]
            utility.append([*head, *errors, *of_both(n_rows, mu, "auc"), *of_both(n_rows, mu, "f1")])
            shown = [of_both(n_rows, mu, measure, 2) for measure in ("answered", "covered", "covered_others")]
            coverage.append([*head, *(value for values in shown for value in values)])

    def titled(*titles: str) -> list[str]:
        return ["rows", "mu of a row", *(f"{title}: {route}" for title in titles for route in ROUTES)]

    shares = cells[cells["measure"].isin(["covered", "covered_others"])]["mean"]
    return {
        "covered_lowest": number(shares.min(), 2),
        "covered_highest": number(shares.max(), 2),
        "utility": markdown_table(titled("error", "AUC", "F1"), utility, left=0),
        "coverage": markdown_table(titled("with intervals", "links", "other pairs"), coverage, left=0),
    }


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    cells = cells.astype({"mu": float})
    figure = new_figure(9.0, 3.6)
    panels = figure.subplots(1, 3)
    shown = {"error": "relative error of the covariance", "auc": "AUC, by evidence", "f1": "F1 of the default graph"}
    for axes, (measure, label) in zip(panels, shown.items(), strict=True):
        shown_cells = cells[cells["measure"] == measure]
        for n_rows, colour in zip(N_ROWS, (ORANGE, GREEN, BLUE), strict=True):
            for route, style in zip(ROUTES, ("o-", "s--"), strict=True):
                here = shown_cells.query("n_rows == @n_rows and route == @route").sort_values("mu")
                axes.plot(here["mu"], here["mean"], style, ms=4, lw=1.4, color=colour, label=f"{n_rows:,}, {route}")
        axes.set(xscale="log", xlabel="mu of a whole row", title=label)
        axes.set_xticks(MUS, [f"{mu:g}" for mu in MUS])
        axes.minorticks_off()
    panels[0].set_yscale("log")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("guo_routes", ("n_rows", "mu", "route"), _jobs, _measure, _describe, _draw)
