"""Pairs of tables published with the same random bits, and what is compared of their releases.

As the noise is then the same, two releases differ by exactly what their tables' sums or values differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from dp_audit.press import Press, Published, publish_made_up
from dp_bundle.base.errors import DpGraphError, MissingValuesError
from dp_publish.policy.model import Policy
from dp_publish.sampling.keystream import insecure_keystream

Loss: TypeAlias = Callable[[Published, NDArray[np.float64]], float]

_SEED = 20


@dataclass(frozen=True)
class Limit:
    """The distance that releases of neighbours may have with the same random bits.

    Attributes
    ----------
    allowed : float
        In the policy's strength.
    loss : callable
        Returns how far apart two releases are, from one of them and what their values differ by.
    """

    allowed: float
    loss: Loss

    def of(self, pair: tuple[Published, Published]) -> float:
        """Return how far apart two releases are."""
        return self.loss(pair[0], pair[1].values - pair[0].values)

    def exceeds(self, found: float) -> bool:
        """Return True if a loss is above what is allowed, by more than rounding."""
        return not found <= self.allowed * (1 + 1e-6)


class Tap:
    """Random bits that can be repeated, and how many were asked for each time."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self._stream = insecure_keystream(_SEED)

    def fill(self, buffer: NDArray[Any]) -> None:
        """Overwrite a C-contiguous array of integers with random bits."""
        self.requests.append(buffer.nbytes)
        self._stream.fill(buffer)


@dataclass(frozen=True)
class Replayer:
    """Publishes tables with the same random bits, and collects what should be equal and is not.

    Attributes
    ----------
    press : callable
        Publishes a table.
    policy : Policy
        For made-up rows.
    hidden : sequence of str
        What may differ: parts of the manifest that follow from the noisy values.
    same_bits : bool
        False if the random bits that are drawn depend on the values.
    steering : sequence of str
        Those of the hidden parts on which later draws depend: where they differ, other bits may be drawn.
    faults : list of str
        What was found.
    """

    press: Press
    policy: Policy
    hidden: Sequence[str] = ()
    same_bits: bool = True
    steering: Sequence[str] = ()
    faults: list[str] = field(default_factory=list)
    _first: list[tuple[pa.Table, Published, Tap]] = field(default_factory=list, repr=False)

    def pair(self, one: pa.Table, other: pa.Table, what: str) -> tuple[Published, Published] | None:
        """Publish two tables, and compare everything that a reader sees but for the values.

        The first one is not published again if it was the last pair's.
        """
        if not (self._first and _is_same_table(self._first[0][0], one)):
            bits = Tap()
            published = self.publish(one, bits)
            if published is None:
                return None
            self._first[:] = [(one, published, bits)]
        _, first, bits = self._first[0]
        more_bits = Tap()
        second = self.publish(other, more_bits)
        if second is None:
            return None
        differing = compare(first, second, self.hidden)
        self.faults.extend(f"the releases of {what} differ in their {key}" for key in differing)
        if self.same_bits and bits.requests != more_bits.requests and not self._is_steered(first, second):
            self.faults.append(f"the releases of {what} draw their noise in another way")
        return first, second

    def _is_steered(self, first: Published, second: Published) -> bool:
        """Return whether later draws of two releases may differ, as what they follow from does."""
        shown = [name for name in self.hidden if name not in self.steering]
        return bool(self.steering) and bool(compare(first, second, shown))

    def same(self, one: pa.Table, other: pa.Table, what: str) -> None:
        """Compare releases that should be equal."""
        pair = self.pair(one, other, what)
        if pair and not np.array_equal(pair[0].values, pair[1].values):
            self.faults.append(f"{what} do not come out alike with the same random bits")

    def neighbours(self, one: pa.Table, other: pa.Table, limit: Limit) -> tuple[Published, Published] | None:
        """Compare releases of which the values of one unit may differ; return those, if they can be compared."""
        what = "neighbouring tables"
        pair = self.pair(one, other, what)
        if pair is None or pair[0].values.shape != pair[1].values.shape:
            return None
        found = limit.of(pair)
        if limit.exceeds(found):
            self.faults.append(
                f"with the same random bits {what} come out {found:.4g} apart, above the {limit.allowed:.4g} of the "
                "policy"
            )
        return pair

    def refused(self, table: pa.Table, name: str) -> None:
        """Check that an empty cell is refused."""
        try:
            publish_made_up(self.press, table, self.policy, Tap())
        except MissingValuesError:
            return
        except (DpGraphError, ValidationError) as error:
            self.faults.append(f"made-up rows cannot be published: {error}")
            return
        self.faults.append(f"column {name!r} does not refuse its empty cells")

    def publish(self, table: pa.Table, bits: Tap | None = None) -> Published | None:
        """Publish a table with the same random bits as every other; None if that fails, which is a fault."""
        try:
            return publish_made_up(self.press, table, self.policy, bits or Tap())
        except (DpGraphError, ValidationError) as error:
            self.faults.append(f"made-up rows cannot be published: {error}")
            return None


def _is_same_table(one: pa.Table, other: pa.Table) -> bool:
    """Return True if two tables have the same rows in the same batches."""
    sizes = [[batch.num_rows for batch in each.to_batches()] for each in (one, other)]
    return sizes[0] == sizes[1] and one.equals(other)


def compare(one: Published, other: Published, hidden: Sequence[str] = ()) -> list[str]:
    """Return the names of what a reader sees, but for the values, that differs between two releases."""
    names = [name for name in one.seen if name not in hidden]
    return [
        name.replace("_", " ")
        for name in names
        if _without(one.seen[name], hidden) != _without(other.seen[name], hidden)
    ]


def _without(found: Any, hidden: Sequence[str]) -> Any:
    if isinstance(found, list):
        return [_without(part, hidden) for part in found]
    if isinstance(found, dict):
        return {key: _without(value, hidden) for key, value in found.items() if key not in hidden}
    return found
