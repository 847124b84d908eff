"""By what should pairs of nodes be ranked, where nodes are numbers and categories? Against a network that is known.

Fifteen nodes, six of them numbers and nine categories of 2 to 20 levels with unequal and rare ones, and 4,000 or 40,000
rows. A category is drawn as in a multinomial probit model: it has a latent Gaussian column for each level but one, and
the level with the largest utility counts. The latent columns have a sparse network of blocks of random rank, whose
norms are alike ("norm"), or grow with the number of entries ("entry"). The tables are published as rows (a cell's mu of
1, 3 and 10) and as second moments (a row's mu of 0.3, 1 and 10). It prints AUC and average precision of

* the scores of the tests, which start from an unpenalised fit;
* from the fit of `fit_for_ranking`, and from one with equal weights of the penalty at the same alpha: the normal score
  of the statistic, its root mean square per entry, and a mixture, the first as far as chance goes, then the second;

and F1 of the default graph by weights of the penalty.

    OPENBLAS_NUM_THREADS=1 python benchmarks/node_ranking.py [--tables 10] [--closeness 0.85] [--density 0.17]

It takes about two minutes of one processor.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy import special
from sklearn.metrics import average_precision_score, roc_auc_score

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import NoSolutionError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path
from dp_learn import learn_graph
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.inference.edges import FACTOR
from dp_learn.inference.nodes import block_statistics, normal_scores
from dp_learn.pipeline.nodes import block_errors, fit_for_ranking, universal_alpha_of_nodes
from dp_learn.pipeline.settings import Fit
from dp_publish import Policy, publish

Floats = NDArray[np.float64]
Edges = NDArray[np.bool_]

N_LEVELS = (1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 6, 8, 12, 16, 20)
DENSITY = 0.17
ROWS = [{"unit": "cell", "mu": mu} for mu in (1.0, 3.0, 10.0)]
MOMENTS = [{"unit": "row", "release": "covariance", "mu": mu} for mu in (0.3, 1.0, 10.0)]
BOUND = 4.0  # of numbers, in standard deviations
RAREST = 2e-4


def draw_table(
    rng: np.random.Generator, n_rows: int, *, by_entry: bool, closeness: float = 0.85, density: float = DENSITY
) -> tuple[pd.DataFrame, Edges]:
    """Return a table, its columns named by their numbers of levels and places, and its network.

    The smallest eigenvalue of the latent precision matrix, whose diagonal is 1, is 1 - closeness, or more.
    """
    n_levels = rng.permutation(N_LEVELS)
    labels = np.repeat(np.arange(len(n_levels)), np.maximum(n_levels - 1, 1))
    edges = np.triu(rng.random((len(n_levels), len(n_levels))) < density, 1)
    links = np.zeros((len(labels), len(labels)))
    for pair in zip(*np.nonzero(edges), strict=True):
        own = np.ix_(*(labels == node for node in pair))
        left, values, right = np.linalg.svd(rng.normal(size=links[own].shape), full_matrices=False)
        values[rng.integers(1, len(values) + 1) :] = 0.0
        size = rng.uniform(0.3, 1.0) * (links[own].size ** 0.25 if by_entry else 1.0)
        links[own] = (left * values) @ right * size / np.linalg.norm(values)
    links += links.T
    links *= min(1.0, closeness / max(-np.linalg.eigvalsh(links)[0], 1e-9))
    covariance = np.linalg.inv(np.eye(len(links)) + links)
    deviations = np.sqrt(np.diagonal(covariance))
    latent = rng.multivariate_normal(np.zeros(len(links)), covariance / np.outer(deviations, deviations), n_rows)
    columns = {
        f"{number}-{place}": _read(rng, latent[:, labels == place], int(number))
        for place, number in enumerate(n_levels)
    }
    return pd.DataFrame(columns), edges | edges.T


def _read(rng: np.random.Generator, latent: Floats, n_levels: int) -> NDArray[np.generic]:
    """Return the numbers, or the levels of largest utility, shifted until they are about as frequent as drawn."""
    if n_levels == 1:
        return np.clip(latent[:, 0], -BOUND, BOUND)
    wanted = np.arange(1.0, n_levels + 1) ** -rng.uniform(0.5, 2.0)
    utility = np.column_stack([np.zeros(len(latent)), latent])
    shift = np.zeros(n_levels)
    for _ in range(60):
        counts = np.bincount((utility[:4000] + shift).argmax(axis=1), minlength=n_levels)
        shift += 0.5 * np.log(wanted / wanted.sum() / np.maximum(counts / counts.sum(), RAREST))
    return np.array([f"level {place}" for place in range(n_levels)])[(utility + shift).argmax(axis=1)]


def policy_of(table: pd.DataFrame, privacy: dict[str, object]) -> Policy:
    """Return a policy for a drawn table."""
    columns: dict[str, object] = {}
    for name in table.columns:
        n_levels = int(name.split("-")[0])
        levels = [f"level {place}" for place in range(n_levels)]
        number = {"kind": "continuous", "bounds": [-BOUND, BOUND]}
        columns[name] = number if n_levels == 1 else {"kind": "category", "categories": levels}
    return Policy.model_validate({"dataset": {"name": "network"}, "privacy": privacy, "columns": columns})


def publish_table(table: pd.DataFrame, privacy: dict[str, object], folder: Path, key: Ed25519PrivateKey) -> Path:
    """Return the bundle of a drawn table."""
    number = len(list(folder.glob("network-*.tar")))
    return Path(publish(table, policy_of(table, privacy), out=folder / f"network-{number}.tar", key=key).path)


def judge(columns: tuple[str, ...], scores: Floats, table: pd.DataFrame, edges: Edges) -> tuple[float, float]:
    """Return AUC and average precision of the scores of pairs of these columns, against the network of the table."""
    places = [list(table.columns).index(name.partition(" (")[0]) for name in columns]  # with the level of a sign
    upper = np.triu_indices(len(places), 1)
    truth = edges[np.ix_(places, places)][upper]
    return float(roc_auc_score(truth, scores[upper])), float(average_precision_score(truth, scores[upper]))


def candidates(fit: Fit) -> dict[str, Floats]:
    """Return the candidate scores of all pairs."""
    found, nodes = {}, fit.nodes
    for name, theta in {"noise": fit_for_ranking(fit), "equal": _fit_equally(fit)}.items():
        statistic, degrees = block_statistics(fit.pooled, theta, nodes.labels, len(nodes.names))
        normal, root = normal_scores(statistic, degrees), np.sqrt(statistic / degrees)
        limit = -special.ndtri(0.1 / (len(normal) * (len(normal) - 1) / 2.0))  # for a fifth of a pair by chance
        at_limit = np.sqrt(special.chdtri(degrees.astype(float), 2.0 * special.ndtr(-limit)) / degrees)
        mixture = np.where(normal <= limit, normal, limit + root - at_limit)
        found |= {f"{name}, normal": normal, f"{name}, root": root, f"{name}, mixture": mixture}
    return found


def _fit_equally(fit: Fit) -> Floats:
    """Return the fit of `fit_for_ranking` with equal weights."""
    nodes = fit.nodes
    alpha = universal_alpha_of_nodes(block_errors(fit.pooled, nodes), nodes.sizes)
    try:
        theta = graphical_lasso(fit.debiased, FACTOR * alpha, groups=nodes.labels).precision
    except NoSolutionError:
        theta = np.eye(len(nodes.labels))
    return nodes.rescale(theta)


def measure(bundle: Bundle, table: pd.DataFrame, edges: Edges) -> dict[str, float]:
    """Return the figures of one release."""
    learned = learn_graph(bundle)
    graph = learned.estimate
    scores = candidates(learned.fit)
    if (tests := graph.tests) is not None:
        scores["tests"] = tests.scores
    figures: dict[str, float] = {}
    for name, each in scores.items():
        figures[f"AUC, {name}"], figures[f"AP, {name}"] = judge(graph.columns, each, table, edges)

    places = [list(table.columns).index(name.partition(" (")[0]) for name in graph.columns]
    upper = np.triu_indices(len(places), 1)
    truth = edges[np.ix_(places, places)][upper]
    for weights in ("noise", "equal"):
        found = learn_graph(bundle, weights=weights, error_bars=False).estimate.precision[upper] != 0.0
        figures[f"F1, {weights}"] = 2.0 * float((found & truth).sum()) / max(int(found.sum() + truth.sum()), 1)
    return figures


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tables", type=int, default=10, help="of each kind and number of rows")
    parser.add_argument("--closeness", type=float, default=0.85, help="nearer to 1, columns are more nearly collinear")
    parser.add_argument("--density", type=float, default=DENSITY, help="the share of pairs that are linked")
    chosen = parser.parse_args()

    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DPGRAPH_HOME"] = str(folder / "home")
        new_key_pair()
        key = load_private_key(private_key_path())
        for place in range(chosen.tables):
            for by_entry in (False, True):
                for n_rows in (4000, 40_000):
                    rng = np.random.default_rng([place, by_entry, n_rows])
                    table, edges = draw_table(
                        rng, n_rows, by_entry=by_entry, closeness=chosen.closeness, density=chosen.density
                    )
                    for privacy in (*ROWS, *MOMENTS):
                        with open_bundle(publish_table(table, privacy, folder, key), UnsafeTrustAnyone()) as bundle:
                            figures = measure(bundle, table, edges)
                        setting = {"release": f"{privacy['unit']} {privacy['mu']:g}", "rows": n_rows}
                        records.append({**setting, "network": "entry" if by_entry else "norm", **figures})
    frame = pd.DataFrame(records)
    frame = frame[frame["AUC, tests"].notna()]  # the same releases for all
    figures = [column for column in frame.columns if column[:2] in {"AU", "AP", "F1"}]
    print(f"means over {len(frame)} releases\n{frame[figures].mean().round(3).to_string()}")
    for setting in ("release", "rows", "network"):
        print(frame.groupby(setting, sort=False)[figures].mean().T.round(3).to_string())


if __name__ == "__main__":
    main()
