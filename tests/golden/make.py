"""Make the stored bundle of the current format version: `python tests/golden/make.py`, once per format version.

It is signed with a key made for the purpose and thrown away; only its public half is kept, as a test key.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.datasets import load_wine

from dp_bundle import open_bundle
from dp_bundle.bundle import UnsafeTrustAnyone
from dp_bundle.manifest import FORMAT_VERSION
from dp_bundle.signing import public_key_of
from dp_learn import estimate_moments
from dp_publish import Policy, publish

FOLDER = Path(__file__).parent
BOUNDS = {"alcohol": [10, 16], "hue": [0, 2], "proline": [0, 2000]}


def main() -> None:
    """Write bundle-vN.tar, its public test key, and what a reader must find in it."""
    table: pd.DataFrame = load_wine(as_frame=True).data[list(BOUNDS)].astype({"proline": int})
    columns = {name: {"bounds": bounds, "unit": "u"} for name, bounds in BOUNDS.items()}
    dataset = {"name": "wine", "license": "CC-BY-4.0"}
    policy = Policy.model_validate({"dataset": dataset, "privacy": {"unit": "row", "mu": 30.0}, "columns": columns})
    key = Ed25519PrivateKey.generate()
    path = FOLDER / f"bundle-v{FORMAT_VERSION}.tar"
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["DPGRAPH_HOME"] = home
        publish(table, policy, out=path, key=key)
    (FOLDER / f"test-key-v{FORMAT_VERSION}.pub").write_bytes(public_key_of(key).to_pem())
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        moments = estimate_moments(bundle)
        found = {
            "manifest_sha256": bundle.manifest_sha256,
            "n_rows": moments.n_rows,
            "mean": moments.mean.tolist(),
            "covariance": moments.covariance.tolist(),
            "noise_variance": bundle.release.noise_variance,
            "rho": bundle.release.guarantee.rho if bundle.release.guarantee else None,
        }
    (FOLDER / f"expected-v{FORMAT_VERSION}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
