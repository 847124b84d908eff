"""The card of a dataset on Hugging Face: a README whose front matter has the privacy label.

References
----------
Hugging Face Hub, "Dataset Cards" and "Manual configuration" (huggingface.co/docs/hub).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from dp_bundle.describe.readme import make_readme
from dp_bundle.describe.subject import (
    PARQUET,
    PublishedFile,
    details,
    licence_address,
    spdx_licence,
    title,
    without_gaps,
)
from dp_bundle.manifest.release import Release
from dp_bundle.portals.yaml import to_yaml

_LICENCES = {"ODbL-1.0": "odbl", "ODC-By-1.0": "odc-by", "PDDL-1.0": "pddl"}
_SAME = {  # but for capital letters
    "Apache-2.0",
    "CC-BY-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-NC-ND-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "MIT",
    "etalab-2.0",
}
_SIZES = [(1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**7, "1M<n<10M")]


def privacy_label(release: Release, signer: str) -> dict[str, Any]:
    """Return the guarantee in numbers, under plain names: unit, neighbours, mu, rho, epsilon, cost so far, signer.

    Parameters
    ----------
    release : Release
        The release.
    signer : str
        The fingerprint of the key that signed it.
    """
    guarantee, total = release.guarantee, release.cumulative
    label: dict[str, Any] = {"guaranteed": guarantee is not None}
    if guarantee is not None:
        label |= {
            "unit": guarantee.unit if guarantee.entity is None else f"entity {guarantee.entity}",
            "max_rows": guarantee.max_rows,
            "neighbours": guarantee.neighbours.value,
            "mu": guarantee.mu,
            "rho": guarantee.rho,
            "epsilon": guarantee.epsilon,
            "excepted_delta": guarantee.excepted_delta or None,
            "epsilon_delta": [[point.epsilon, point.delta] for point in guarantee.epsilon_delta],
            "not_protected": list(guarantee.public),
        }
    spent = {"releases": total.releases, "unit": total.unit, "mu": total.mu, "rho": total.rho}
    return without_gaps({**label, "spent_so_far": without_gaps(spent), "signer": signer})


def hugging_face_card(release: Release, files: Sequence[PublishedFile], signer: str) -> str:
    """Return the card: front matter in YAML, then the README of the bundle and how to verify it."""
    more = details(release)
    front = {
        "pretty_name": title(release),
        **_licence(release),
        "language": list(more.languages),
        "tags": ["differential-privacy", "tabular", *more.keywords],
        "size_categories": [_size(release)],
        "configs": _configs(release, files),
        "doi": more.doi,
        "differential_privacy": privacy_label(release, signer),
    }
    tar = next(file.path for file in files if file.media_type != PARQUET)
    data = [file for file in files if file.media_type == PARQUET]
    verify = [
        "## How to verify",
        "",
        f"`{tar}` holds the same files, signed by `{signer}`:",
        "",
        f"    dp-bundle verify {shlex.quote(tar)}",
        "",
        "The digests of the Parquet files beside it are in its manifest.",
    ]
    return "\n".join(
        [f"---\n{to_yaml(without_gaps(front))}---", "", make_readme(release, len(data), in_file=False), *verify, ""]
    )


def _licence(release: Release) -> dict[str, str]:
    """Return the licence by its name on the hub, or as another one with its address."""
    known, dataset = spdx_licence(release.dataset), release.dataset
    if known in _LICENCES or known in _SAME:
        return {"license": _LICENCES.get(known, known.lower())}
    if not dataset.license:
        return {"license": "unknown"}
    return {"license": "other", "license_name": dataset.license, "license_link": licence_address(dataset)}


def _size(release: Release) -> str:
    """Return the hub's word for the number of lines of the first table."""
    n_lines = release.n_rows
    if release.second_moments is not None:
        n_lines = len(release.labels) * (len(release.labels) + 1) // 2
    return next((name for limit, name in _SIZES if n_lines < limit), "10M<n<100M")


def _configs(release: Release, files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    """Return what the hub loads: all rows as one table, or each matrix, and never the tar, which is no WebDataset."""
    data = [file.path for file in files if file.media_type == PARQUET]
    if release.second_moments is None:
        return [{"config_name": "default", "data_files": [{"split": "train", "path": "data/part-*.parquet"}]}]
    return [
        {"config_name": PurePosixPath(path).stem, "data_files": [{"split": "train", "path": path}]} for path in data
    ]
