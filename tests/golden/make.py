"""Make the stored bundles of today's format, one of each kind: `python tests/golden/make.py`.

They are signed with a key that is made for the purpose and thrown away; only its public half is kept, as a test key.
"""

import datetime
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.datasets import load_wine

from dp_bundle import Bundle, open_bundle
from dp_bundle.data.margins import middle_scores
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import public_key_of
from dp_learn import estimate_moments
from dp_learn.covariance.sources import CovarianceSource, bundle_source
from dp_publish import Policy, publish

FOLDER = Path(__file__).parent
MOMENTS = {"unit": "row", "release": "covariance"}
KINDS: dict[str, dict[str, Any]] = {
    "rows": {"unit": "row", "mu": 30.0},
    "mixed": {"unit": "cell", "mu": 6.0},
    "gaps": {"unit": "cell", "mu": 5.0},
    "changes": {"unit": "change", "mu": 1.0},
    "found": {"unit": "row", "mu": 12.0},
    "covariance": {**MOMENTS, "mu": 2.0, "mechanism": "gaussian", "neighbours": "add-remove"},
    "eigenvectors": {**MOMENTS, "epsilon": 4.0, "mechanism": "eigenvectors"},
    "wishart-difference": {**MOMENTS, "epsilon": 4.0, "mechanism": "wishart-difference"},
    "two-round": {**MOMENTS, "mu": 10.0, "mechanism": "two-round"},
    "copula": {"unit": "row", "mu": 12.0, "scale": "scores"},
}
LEVELS = {"kind": "ordered", "levels": ["low", "middle", "high"]}
DAYS = {"kind": "date", "bounds": [datetime.date(2020, 1, 1), datetime.date(2026, 1, 1)]}


def main() -> None:
    """Write each bundle-KIND.tar, the test key, and what a reader must find in each."""
    key = Ed25519PrivateKey.generate()
    (FOLDER / "test-key.pub").write_bytes(public_key_of(key).to_pem())
    for kind, privacy in KINDS.items():
        path = FOLDER / f"bundle-{kind}.tar"
        path.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as home:
            os.environ["DPGRAPH_HOME"] = home
            _publish(kind, privacy, path, key, Path(home))
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            (FOLDER / f"expected-{kind}.json").write_text(json.dumps(facts(bundle), indent=1) + "\n")


def _publish(kind: str, privacy: dict[str, Any], path: Path, key: Ed25519PrivateKey, home: Path) -> None:
    table = load_wine(as_frame=True).data[["alcohol", "hue", "proline"]].astype({"proline": int})
    columns: dict[str, Any] = {
        "alcohol": {"bounds": [10, 16], "unit": "u"},
        "hue": {"bounds": [0, 2], "unit": "u"},
        "proline": {"bounds": [0, 2000], "unit": "u"},
    }
    if kind in ("mixed", "gaps", "copula", "found"):
        table, columns = _of_all_cells(kind, table, columns)
    elif kind == "changes":
        table = table[["proline"]].assign(hue=(100 * table["hue"]).astype(int))
        columns = {name: {"bounds": [0, 2000], "max_change": 1} for name in table}

    policy: dict[str, Any] = {"dataset": {"name": "wine", "license": "CC-BY-4.0"}, "privacy": privacy}
    if kind == "found":  # of a text file, of which nothing is declared
        table.to_csv(home / "wine.csv", index=False)
        publish(home / "wine.csv", Policy.model_validate({**policy, "find": True}), out=path, key=key)
    else:
        publish(table, Policy.model_validate({**policy, "columns": columns}), out=path, key=key)


def _of_all_cells(kind: str, table: pd.DataFrame, columns: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table with levels, truth values, dates and gaps, as the kind of release has them."""
    size = pd.cut(table["proline"], [0, 500, 700, 2000], labels=["small", "middle", "large"]).astype(str)
    table = table.assign(
        size=size,
        red=(table["hue"] > 1).map({True: "yes", False: "no"}),
        grade=pd.cut(table["alcohol"], [0, 12, 13, 20], labels=["low", "middle", "high"]).astype(str),
        made=pd.Timestamp(2020, 1, 1) + pd.to_timedelta(table["proline"], unit="D"),
    )
    red: dict[str, Any] = {"kind": "boolean", "levels": ["no", "yes"]}
    sizes: dict[str, Any] = {"kind": "category", "categories": ["small", "middle", "large"]}
    if kind == "copula":
        table = table.assign(hue=table["hue"].where(table["alcohol"] < 13.7), hundreds=table["proline"] // 100)
        columns["hue"] |= {"missing": "indicator"}
        columns |= {"red": red, "grade": LEVELS, "size": sizes, "hundreds": {"bounds": [0, 20]}}
        return table.drop(columns="made"), columns
    if kind == "gaps":
        gaps = {"hue": table["alcohol"] < 13.5, "proline": table["hue"] < 1.2, "grade": table["hue"] > 0.8}
        gaps["made"] = table["alcohol"] > 12.2
        table = table.astype({"proline": "Int64"})
        table = table.assign(**{name: table[name].where(kept) for name, kept in gaps.items()})
        columns |= {"grade": LEVELS, "made": DAYS}
        columns |= {name: {**columns[name], "missing": "indicator"} for name in gaps}
        return table.drop(columns=["size", "red"]), columns

    # A category by either mechanism, with values that are not listed.
    table = table.assign(size=size.where(table["hue"] < 1.3), maker=table["hue"].round(1).astype(str))
    of_makers = {"kind": "category", "categories": ["0.9", "1.0", "1.1"], "other": "other", "mechanism": "gaussian"}
    replaced = {"mechanism": "randomized-response"}
    columns |= {"size": sizes | replaced | {"other": "other", "missing": "category"}, "maker": of_makers}
    columns |= {"red": red | replaced, "grade": LEVELS, "made": DAYS}
    return table.drop(columns="maker") if kind == "found" else table, columns


def facts(bundle: Bundle) -> dict[str, Any]:
    """Return what a reader finds in a bundle: its digest, its strength, and its numbers with what follows from them."""
    release = bundle.release
    found: dict[str, Any] = {"manifest_sha256": bundle.manifest_sha256, "n_rows": release.n_rows}
    if release.guarantee is not None:
        found["rho"] = release.guarantee.rho
    if release.kind == "rows":
        moments = estimate_moments(bundle)
        shown = {"mean": moments.mean, "covariance": moments.covariance}
        return found | {name: each.tolist() for name, each in shown.items()} | {"noise": release.noise_variance}

    found |= {"labels": release.labels, "matrix": bundle.second_moments().tolist()}
    if release.second_moments is not None and release.second_moments.first_round is not None:
        source = bundle_source(bundle)
        assert isinstance(source, CovarianceSource)
        found |= {"first_round": bundle.first_round().tolist(), "transform": bundle.transform().tolist()}
        found |= {"mean": source.mean.tolist(), "covariance": source.released.debiased.tolist()}
    if release.margins is not None:
        found["margins"] = [_margin(margin, release.n_rows, release.margins.sigma) for margin in bundle.margins()]
    return found


def _margin(margin: Any, n_rows: int, sigma: float) -> dict[str, Any]:
    """Return a histogram, with what follows from it: the share of each cell, and the score of those with ends."""
    shares = margin.shares(n_rows, sigma)
    scores = middle_scores(shares[: margin.n_filled], n_rows).tolist() if margin.counts_numbers else None
    stated = {"name": margin.name, "labels": list(margin.labels), "has_gaps": margin.has_gaps}
    numbers = {"edges": margin.edges, "counts": margin.counts, "shares": shares}
    return {**stated, **{name: each.tolist() for name, each in numbers.items()}, "scores": scores}


if __name__ == "__main__":
    main()
