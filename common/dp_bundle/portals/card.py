"""The card of a dataset on Hugging Face: a README whose front matter has the privacy label.

In YAML, texts and lists are written as in JSON, and numbers so that every reader takes them for numbers: those of YAML
1.1 take 1e-06 for a text, and 1.0e-06 for a number.

References
----------
Hugging Face Hub, "Dataset Cards" and "Manual configuration" (huggingface.co/docs/hub).
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from dp_bundle.describe.readme import make_readme
from dp_bundle.describe.subject import PARQUET, PublishedFile, Subject, without_gaps
from dp_bundle.manifest.release import Release

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
    label = {
        "guaranteed": True,
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
    subject = Subject(release)
    more, data = subject.more, [file for file in files if file.media_type == PARQUET]
    # the hub loads all rows as one table, or each matrix, and never the tar, which is no WebDataset
    tables = {"default": "data/part-*.parquet"}
    if release.second_moments is not None:
        tables = {PurePosixPath(file.path).stem: file.path for file in data}
    front = {
        "pretty_name": subject.title,
        **_licence(subject),
        "language": list(more.languages),
        "tags": ["differential-privacy", "tabular", *more.keywords],
        "size_categories": [_size(release)],
        "configs": [
            {"config_name": name, "data_files": [{"split": "train", "path": path}]} for name, path in tables.items()
        ],
        "doi": more.doi,
        "differential_privacy": privacy_label(release, signer),
    }
    tar = next(file.path for file in files if file.media_type != PARQUET)
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


def _licence(subject: Subject) -> dict[str, str]:
    """Return the licence by its name on the hub, or as another one with its address."""
    if subject.spdx in _LICENCES or subject.spdx in _SAME:
        return {"license": _LICENCES.get(subject.spdx, subject.spdx.lower())}
    if not subject.dataset.license:
        return {"license": "unknown"}
    return {"license": "other", "license_name": subject.dataset.license, "license_link": subject.licence_address}


def _size(release: Release) -> str:
    """Return the hub's word for the number of lines of the first table."""
    n_lines = release.n_rows
    if release.second_moments is not None:
        n_lines = len(release.labels) * (len(release.labels) + 1) // 2
    return next((name for limit, name in _SIZES if n_lines < limit), "10M<n<100M")


def to_yaml(document: dict[str, Any], indent: str = "") -> str:
    """Return a document of dicts, lists, texts and numbers, with a line for each entry."""
    lines = []
    for name, value in document.items():
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{to_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {_flow(value)}\n")
    return "".join(lines)


def _flow(value: Any) -> str:
    """Return a value in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, float):
        digits, mark, exponent = repr(value).partition("e")
        return f"{digits}{'' if '.' in digits or not mark else '.0'}{mark}{exponent}"
    return json.dumps(value, ensure_ascii=False)
