"""The contents of a release that was drawn, and the errors that could tell something of them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

from pydantic import ConfigDict, with_config

from dp_bundle.base.errors import DataError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_bundle.manifest.release import Release
from dp_publish.data.missing import RowReport


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Contents:
    """What the manifest says of the data members of a bundle, and what its publisher is told of them.

    `report`, and it alone, tells of private values. `remark` says what was chosen for her, and why; it holds nothing
    private.
    """

    n_rows: int
    columns: tuple[Column, ...]
    guarantee: Guarantee | None
    report: RowReport
    remark: str | None = None
    conditional_mu: float | None = None
    second_moments: SecondMoments | None = None


class Part(NamedTuple):
    """A data member that was written: its place among all, its file and the SHA-256 of that."""

    place: int
    file: BinaryIO
    sha256: str


@with_config(ConfigDict(extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"))
@dataclass(frozen=True)
class Sealed:
    """A bundle that was written and signed; `blake2b` is the BLAKE2b-512 digest of the whole file."""

    release: Release
    manifest_sha256: str
    blake2b: bytes
    report: RowReport
    remark: str | None


_REVEAL_NOTHING = (DataError, OSError, MemoryError, KeyboardInterrupt)  # of noisy numbers that were drawn before them
_MARK = "reveals_noise"


@contextlib.contextmanager
def could_reveal_noise() -> Iterator[None]:
    """Mark the errors of a block that may reveal numbers drawn before it: their cost must not be taken back."""
    try:
        yield
    except _REVEAL_NOTHING:
        raise
    except BaseException as error:
        vars(error)[_MARK] = True
        raise


@contextlib.contextmanager
def stays_booked() -> Iterator[None]:
    """Mark all errors of a block after which noisy numbers lie where others may have seen them."""
    try:
        yield
    except BaseException as error:
        vars(error)[_MARK] = True
        error.add_note(
            "noisy parts were staged, so the release stays on the books as reserved, and nothing is published"
        )
        raise


def may_reveal_noise(error: BaseException) -> bool:
    """Return True if an error was marked by `could_reveal_noise`."""
    return _MARK in vars(error)


def digest_of(file: BinaryIO) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    file.seek(0)
    return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
