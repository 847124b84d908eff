"""What strangers' bytes go into: an archive, a manifest that a trusted key signed, a Parquet member in a signed bundle.

Each function reads its input as a user's reader would, and returns whether it was accepted. It raises a
`ContradictionError` where something was accepted that is not what it says, and every exception but a `BundleError`.
"""

import hashlib
import io
import math
import os
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import norm
from tests.fuzz.hostile import N_ROWS
from tests.tamper.archives import read_all

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleError
from dp_bundle.bundle.reading import verify_manifest
from dp_bundle.bundle.writing import MANIFEST_NAME, write_bundle
from dp_bundle.data.margins import margin_table
from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
from dp_bundle.describe.sentences import describe_guarantee, describe_sources, describe_total
from dp_bundle.manifest.columns import Column, RandomizedResponse, source_names
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, sign_envelope
from dp_publish import Policy, publish

KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a trusted signer who turned bad").digest())
GOLDEN = Path(__file__).parents[1] / "golden"
_SLACK = 1 + 1e-6


class ContradictionError(AssertionError):
    """Something was accepted that is not what it says."""


@dataclass(frozen=True)
class Seed:
    """An honest bundle: its bytes, its manifest's payload, its release, its data members, and the one to change."""

    name: str
    archive: bytes
    payload: bytes
    release: Release
    members: tuple[bytes, ...]
    place: int = 0

    @property
    def member(self) -> bytes:
        """The data member that a case changes."""
        return self.members[self.place]

    def members_with(self, content: bytes) -> list[BinaryIO]:
        """Return the data members, with other content in the place of the one to change."""
        return [io.BytesIO(content if at == self.place else each) for at, each in enumerate(self.members)]


@cache
def seeds() -> tuple[Seed, ...]:
    """Return honest bundles: the stored ones, one of a single column, and one that protects entities."""
    table = pd.DataFrame({"x": [0.5, 1.5, 2.5, 1000.25] * (N_ROWS // 4)})
    table["who"] = [f"w{index // 3}" for index in range(N_ROWS)]
    units = {"one": "row", "entities": {"entity": "who", "max_rows": 3}}  # of the first, hostile files are made
    found = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPGRAPH_HOME"] = folder
        for name, unit in units.items():
            policy = {"dataset": {"name": name}, "privacy": {"unit": unit, "mu": 1.0}}
            policy["columns"] = {"x": {"bounds": [0, 1024], "unit": "u" * (name != "one")}}
            path = Path(folder) / f"{name}.tar"
            publish(table[["x"]] if name == "one" else table, Policy.model_validate(policy), out=path, key=KEY)
            found.append(_seed(path))
    found += [_seed(path) for path in sorted(GOLDEN.glob("*.tar"))]
    others = [
        (seed, place) for seed in found if seed.release.kind == "covariance" for place in range(len(seed.members))
    ]
    return (*found, *(replace(seed, name=f"{seed.name} {place}", place=place) for seed, place in others if place))


def _seed(path: Path) -> Seed:
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        members = tuple(bundle.open(name).read() for name in bundle.members if name.startswith("data/"))
        manifest = bundle.members[MANIFEST_NAME]
        archive = path.read_bytes()
        envelope = Envelope.from_bytes(archive[manifest.offset : manifest.offset + manifest.size])
        return Seed(path.stem, archive, envelope.payload, bundle.release, members)


def read_archive(content: bytes) -> bool:
    """Open a file as a bundle and read it; only the honest ones are accepted."""
    try:
        with open_bundle(_written(content), UnsafeTrustAnyone()) as bundle:
            read_all(bundle)
    except BundleError:
        return False
    if content not in {seed.archive for seed in seeds()}:
        raise ContradictionError("a changed archive was accepted")
    return True


def read_manifest(payload: bytes) -> bool:
    """Sign a payload by a trusted key and read it; what is accepted can be shown, and its guarantee is not too good."""
    try:
        statement, _ = verify_manifest(sign_envelope(payload, KEY).to_bytes(), UnsafeTrustAnyone())
    except BundleError:
        return False
    release = statement.predicate
    if statement.to_bytes() != payload:
        raise ContradictionError("two spellings of one manifest")
    names = release.moment_names if release.kind == "covariance" else ["data/part-00000.parquet"]
    described = [DataMember(name, 1, "0" * 64) for name in names]
    for make in DESCRIPTORS.values():
        make(release, described)
    describe_guarantee(release), describe_total(release), describe_sources(release)
    _check_guarantee(release)
    return True


def read_member(content: bytes, seed: Seed) -> bool:
    """Sign a bundle with this data member and read it; what is accepted is as promised, and as others read it."""
    file, release = io.BytesIO(), seed.release
    write_bundle(file, release, seed.members_with(content), KEY)
    try:
        with open_bundle(_written(file.getvalue()), UnsafeTrustAnyone()) as bundle:
            read = read_all(bundle)
            found = read[seed.place] if release.kind == "covariance" else pa.Table.from_batches(read)
    except BundleError:
        return False
    table = pq.read_table(io.BytesIO(content))
    if release.margins is not None and seed.place == len(release.matrix_names):
        written = margin_table(found).to_pandas()
        if not written.equals(table.to_pandas()) or [each.name for each in found] != source_names(release.columns):
            raise ContradictionError("histograms were accepted that others read otherwise")
        return True
    if release.kind == "covariance":
        triangle = table.column("value").to_numpy()
        if not np.array_equal(found[np.triu_indices(len(found))], triangle) or not np.isfinite(found).all():
            raise ContradictionError("a matrix was accepted that others read otherwise")
        return True
    if table.num_rows != release.n_rows or any(column.null_count for column in table.columns):
        raise ContradictionError("rows were accepted that are not the promised ones")
    for index, column in enumerate(release.columns):
        values = table.column(column.name).to_numpy()
        if not np.array_equal(found.column(index).to_numpy(), values):
            raise ContradictionError("values were accepted that others read otherwise")
        if not np.isfinite(values).all():
            raise ContradictionError(f"{column.name} has values that are no numbers")
    return True


def _check_guarantee(release: Release) -> None:
    """Compare a guarantee with what Gaussian noise on every cell is known to give (Bun and Steinke, 2016)."""
    stated = release.guarantee
    if stated is not None and stated.mu is not None and release.margins is not None:
        counts_move = (stated.max_rows or 1) * math.sqrt(2 * len(source_names(release.columns)))
        if stated.mu * _SLACK < counts_move / release.margins.sigma:
            raise ContradictionError(f"mu = {stated.mu} where the histograms alone give more")
    if stated is None or release.kind != "rows" or any(column.bounds is None for column in release.columns):
        return
    moved = [
        _moved(list(own), stated.unit) for _, own in groupby(release.columns, lambda each: each.block or each.name)
    ]
    rows = stated.max_rows or 1
    mu = max(moved) if stated.unit in ("cell", "change") else math.sqrt(rows * sum(each**2 for each in moved))
    if stated.rho is not None and stated.rho * _SLACK < mu**2 / 2:
        raise ContradictionError(f"rho = {stated.rho} where the noise gives {mu**2 / 2}")
    if stated.mu is not None and stated.mu * _SLACK < mu:
        raise ContradictionError(f"mu = {stated.mu} where the noise gives {mu}")
    total = release.cumulative
    if total.rho is not None and stated.rho is not None and total.rho * _SLACK < stated.rho:
        raise ContradictionError("a total below the release's own cost")


def _moved(own: list[Column], unit: str) -> float:
    """Return the mu of one cell of the raw table; another level takes 1 from one column and adds 1 to another.

    A number with published gaps moves by its width, or by half of it and its indicator by 1.
    """
    noise, (low, high) = own[0].noise, own[0].bounds or (-math.inf, math.inf)
    if isinstance(noise, RandomizedResponse):
        other = noise.replaced / noise.n_levels
        return float(norm.isf(other) - norm.isf(1 - noise.replaced + other))
    limit = own[0].max_change if unit == "change" else None
    width = high - low if limit is None else min(high - low, limit)
    if own[0].missing == "indicator":
        sigma, step = own[0].cell_noise.sigma, own[0].cell_noise.granularity
        return max(width / sigma, math.hypot((width / 2 + step) / sigma, 1 / own[1].cell_noise.sigma))
    return math.hypot(*[width / own[0].cell_noise.sigma] * min(len(own), 2))


@cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz")) / "bundle.tar"


def _written(content: bytes) -> Path:
    path = _scratch()
    path.write_bytes(content)
    return path
