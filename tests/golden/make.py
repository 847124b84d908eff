"""Make the stored bundles of the format versions in use: `python tests/golden/make.py`, once per format version.

A bundle of rows, and of second moments by four mechanisms; what is stored already stays as it is. Each is
signed with a key made for the purpose and thrown away; only its public half is kept, as a test key.
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
from dp_bundle.manifest.base import FORMAT_VERSION, PLAIN_VERSION
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import public_key_of
from dp_learn import estimate_moments
from dp_learn.covariance.sources import CovarianceSource, bundle_source
from dp_publish import Policy, publish

FOLDER = Path(__file__).parent
BOUNDS = {"alcohol": [10, 16], "hue": [0, 2], "proline": [0, 2000]}
ROWS = {"unit": "row", "mu": 30.0}
COVARIANCE = {"unit": "row", "mu": 2.0, "release": "covariance", "mechanism": "gaussian", "neighbours": "add-remove"}
EIGENVECTORS = {"unit": "row", "epsilon": 4.0, "release": "covariance", "mechanism": "eigenvectors"}
DIFFERENCE = {"unit": "row", "epsilon": 4.0, "release": "covariance", "mechanism": "wishart-difference"}
TWO_ROUND = {"unit": "row", "mu": 10.0, "release": "covariance", "mechanism": "two-round"}
MIXED = {"unit": "cell", "mu": 6.0}
MIXED_COVARIANCE = {"unit": "row", "mu": 10.0, "release": "covariance", "mechanism": "gaussian"}
CHANGES = {"unit": "change", "mu": 1.0}
GAPS = {"unit": "cell", "mu": 5.0}
GAPS_COVARIANCE = {"unit": "row", "mu": 12.0, "release": "covariance", "mechanism": "gaussian"}
GAPS_TWO_ROUND = {"unit": "row", "mu": 20.0, "release": "covariance", "mechanism": "two-round"}
ASINH_TWO_ROUND = {"unit": "row", "mu": 15.0, "release": "covariance", "mechanism": "two-round"}
FOUND = {"unit": "row", "mu": 12.0}
FOUND_TWO_ROUND = {"unit": "row", "mu": 30.0, "release": "covariance"}
COPULA = {"unit": "row", "mu": 12.0, "release": "copula"}
VERSIONS = {id(ASINH_TWO_ROUND): "6", id(FOUND): "7", id(FOUND_TWO_ROUND): "7", id(COPULA): FORMAT_VERSION}
KINDS = {
    "-found": FOUND,
    "-found-two-round-covariance": FOUND_TWO_ROUND,
    "-gaps-two-round-covariance": GAPS_TWO_ROUND,
    "-gaps": GAPS,
    "-gaps-covariance": GAPS_COVARIANCE,
    "-mixed": MIXED,
    "-changes": CHANGES,
    "-mixed-covariance": MIXED_COVARIANCE,
    "": ROWS,
    "-covariance": COVARIANCE,
    "-eigenvectors-covariance": EIGENVECTORS,
    "-wishart-difference-covariance": DIFFERENCE,
    "-two-round-covariance": TWO_ROUND,
    "-asinh-two-round-covariance": ASINH_TWO_ROUND,
    "-copula-two-round-covariance": COPULA,
}


def main() -> None:
    """Write each bundle-NAME.tar that is not there, its public test key, and what a reader must find in it."""
    for kind, privacy in KINDS.items():
        name = f"v{VERSIONS.get(id(privacy), PLAIN_VERSION)}{kind}"
        path = FOLDER / f"bundle-{name}.tar"
        if path.exists():
            continue
        key = Ed25519PrivateKey.generate()
        _publish(path, privacy, key)
        (FOLDER / f"test-key-{name}.pub").write_bytes(public_key_of(key).to_pem())
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            guarantee = bundle.release.guarantee
            found = {
                "manifest_sha256": bundle.manifest_sha256,
                **(_rows(bundle) if bundle.release.kind == "rows" else _second_moments(bundle)),
                "rho": guarantee.rho if guarantee else None,
            }
        (FOLDER / f"expected-{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def _publish(path: Path, privacy: dict[str, Any], key: Ed25519PrivateKey) -> None:
    table: pd.DataFrame = load_wine(as_frame=True).data[list(BOUNDS)].astype({"proline": int})
    columns: dict[str, Any] = {name: {"bounds": bounds, "unit": "u"} for name, bounds in BOUNDS.items()}
    if privacy in (MIXED, MIXED_COVARIANCE):
        table, columns = _mixed(table, columns)
    elif privacy in (GAPS, GAPS_COVARIANCE, GAPS_TWO_ROUND):
        table, columns = _with_gaps(table, columns)
    elif privacy is ASINH_TWO_ROUND:
        asinh = {"transform": "asinh"}
        columns |= {"alcohol": columns["alcohol"] | asinh}
        columns |= {"proline": columns["proline"] | asinh | {"center": 700.0, "scale": 200.0}}
    elif privacy is COPULA:
        table, columns = _of_all_cells(table, columns)
    elif privacy is CHANGES:
        table = table[["proline"]].assign(hue=(100 * table["hue"]).astype(int))
        columns = {name: {"bounds": [0, 2000], "max_change": 1} for name in table}
    dataset = {"name": "wine", "license": "CC-BY-4.0"}
    policy = Policy.model_validate({"dataset": dataset, "privacy": privacy, "columns": columns})
    with tempfile.TemporaryDirectory() as home:
        os.environ["DPGRAPH_HOME"] = home
        data: pd.DataFrame | Path = table
        if privacy in (FOUND, FOUND_TWO_ROUND):  # of a text file, of which nothing is declared
            data = Path(home) / "wine.csv"
            _mixed(table, columns)[0].drop(columns="maker").to_csv(data, index=False)
            policy = policy.model_copy(update={"columns": {}, "find": "all" if privacy is FOUND else ""})
        publish(data, policy, out=path, key=key)


def _mixed(table: pd.DataFrame, columns: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table with a category by either mechanism, one of two, an ordered column, a date and gaps."""
    size = pd.cut(table["proline"], [0, 500, 700, 1000, 2000], labels=["small", "middle", "large", "huge"])
    table = table.assign(
        size=size.astype(str).where(table["hue"] < 1.3, None),
        maker=table["hue"].round(1).astype(str),
        red=(table["hue"] > 1).map({True: "yes", False: "no"}),
        grade=pd.cut(table["alcohol"], [0, 12, 13, 20], labels=["low", "middle", "high"]).astype(str),
        made=pd.Timestamp(2020, 1, 1) + pd.to_timedelta(table["proline"], unit="D"),
    )
    levels = ["small", "middle", "large"]
    columns |= {
        "size": {
            "kind": "category",
            "categories": levels,
            "other": "other",
            "missing": "category",
            "mechanism": "randomized-response",
        },
        "maker": {"kind": "category", "categories": ["0.9", "1.0", "1.1"], "other": "other", "mechanism": "gaussian"},
        "red": {"kind": "boolean", "levels": ["no", "yes"], "mechanism": "randomized-response"},
        "grade": {"kind": "ordered", "levels": ["low", "middle", "high"]},
        "made": {"kind": "date", "bounds": [datetime.date(2020, 1, 1), datetime.date(2026, 1, 1)]},
    }
    return table, columns


def _with_gaps(table: pd.DataFrame, columns: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table with gaps that are published, in a number, a whole number, an ordered column and a date."""
    grade = pd.cut(table["alcohol"], [0, 12, 13, 20], labels=["low", "middle", "high"]).astype(str)
    made = pd.Timestamp(2020, 1, 1) + pd.to_timedelta(table["proline"], unit="D")
    table = table.assign(
        hue=table["hue"].where(table["alcohol"] < 13.5),
        proline=table["proline"].astype("Int64").where(table["hue"] < 1.2),
        grade=grade.where(table["hue"] > 0.8, None),
        made=made.where(table["alcohol"] > 12.2),
    )
    indicated = {"missing": "indicator"}
    columns |= {name: {**columns[name], **indicated} for name in ("hue", "proline")}
    columns |= {
        "grade": {"kind": "ordered", "levels": ["low", "middle", "high"], **indicated},
        "made": {"kind": "date", "bounds": [datetime.date(2020, 1, 1), datetime.date(2026, 1, 1)], **indicated},
    }
    return table, columns


def _of_all_cells(table: pd.DataFrame, columns: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table with a number with gaps, few and many whole numbers, a truth value, a category and an order."""
    mixed, described = _mixed(table, columns)
    table = mixed.drop(columns=["made", "maker"]).assign(
        hue=mixed["hue"].where(mixed["alcohol"] < 13.7), hundreds=mixed["proline"] // 100
    )
    table["size"] = table["size"].where(~table["size"].isin(["huge"]), "large").fillna("middle")
    kept = {name: described[name] for name in ("alcohol", "hue", "proline", "red", "grade")}
    kept["hue"] = {**kept["hue"], "missing": "indicator"}
    kept["red"] = {"kind": "boolean", "levels": ["no", "yes"]}
    kept["size"] = {"kind": "category", "categories": ["small", "middle", "large"]}
    return table, {**kept, "hundreds": {"bounds": [0, 20]}}


def _rows(bundle: Bundle) -> dict[str, Any]:
    moments = estimate_moments(bundle)
    return {
        "n_rows": moments.n_rows,
        "mean": moments.mean.tolist(),
        "covariance": moments.covariance.tolist(),
        "noise_variance": bundle.release.noise_variance,
    }


def _second_moments(bundle: Bundle) -> dict[str, Any]:
    moments = bundle.release.second_moments
    return {
        "n_rows": bundle.release.n_rows,
        "labels": bundle.release.labels,
        "matrix": bundle.second_moments().tolist(),
        "diagonal_variance": moments.diagonal_variance if moments else None,
        "off_diagonal_variance": moments.off_diagonal_variance if moments else None,
        **(_rounds(bundle) if moments and moments.first_round else {}),
        **(_margins(bundle, moments.margins.sigma) if moments and moments.margins else {}),
    }


def _margins(bundle: Bundle, sigma: float) -> dict[str, Any]:
    """Return the histograms, with what follows from each: the share of each cell, and the score of those with ends."""
    found = []
    for margin in bundle.margins():
        shares = margin.shares(bundle.release.n_rows, sigma)
        scores = middle_scores(shares[: margin.n_filled], bundle.release.n_rows) if margin.counts_numbers else None
        found.append(
            {
                "name": margin.name,
                "labels": list(margin.labels),
                "has_gaps": margin.has_gaps,
                "edges": margin.edges.tolist(),
                "counts": margin.counts.tolist(),
                "shares": shares.tolist(),
                "scores": None if scores is None else scores.tolist(),
            }
        )
    return {"margins": found}


def _rounds(bundle: Bundle) -> dict[str, Any]:
    source = bundle_source(bundle)
    assert isinstance(source, CovarianceSource)
    return {
        "first_round": bundle.first_round().tolist(),
        "transform": bundle.transform().tolist(),
        "mean": source.mean.tolist(),
        "covariance": source.released.debiased.tolist(),
    }


if __name__ == "__main__":
    main()
