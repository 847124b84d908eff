"""What a kind of release has to offer `release.publish`, which pays for it, seals it and gives it its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias

import pyarrow as pa

from dp_bundle.manifest import Column, Guarantee, SecondMoments
from dp_publish.accounting import Cost
from dp_publish.sampling import Keystream

__all__ = ["Contents", "Maker", "NewFile", "Progress", "Read"]

Read: TypeAlias = Callable[[dict[str, str]], Iterator[pa.RecordBatch]]
NewFile: TypeAlias = Callable[[], BinaryIO]
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True)
class Contents:
    """What goes into the bundle: its data members, and what the manifest says of them."""

    parts: list[BinaryIO]
    n_rows: int
    columns: tuple[Column, ...]
    guarantee: Guarantee | None
    conditional_mu: float | None = None
    second_moments: SecondMoments | None = None


class Maker(Protocol):
    """A release in the making.

    Attributes
    ----------
    cost : Cost
        What it will cost, known before anything is drawn.
    told : bool
        Whether numbers have been drawn that an error raised now may tell of, so that the cost cannot be taken back.
    remark : str or None
        A sentence for the publisher about a choice that was made for her; it holds nothing private.
    """

    told: bool

    @property
    def cost(self) -> Cost:
        """Return what the release costs."""

    @property
    def remark(self) -> str | None:
        """Return what the publisher should be told."""

    def make(self, keystream: Keystream, new_file: NewFile, progress: Progress | None) -> Contents:
        """Read the table, draw the noise, and write the data members."""
