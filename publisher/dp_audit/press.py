"""Made-up tables published like real ones, and opened like a reader does.

Publication itself is handed in, as a `Press`, which yields the bundle's path and the cost that was booked: nothing here
can reach a ledger. The command's is `release.publish_aside`.

Pairs of tables are published with the same random bits (`Replayer`). As the noise is then the same, two releases differ
by exactly what their tables' sums or values differ by.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from dp_audit.canaries import crowd_rows, in_batches, name_rows, raw_table
from dp_audit.checks import Check, make_check
from dp_audit.raw_cells import RawCell, raw_arrays
from dp_bundle.base.errors import DpGraphError, MissingValuesError
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.accounting.conversions import Cost
from dp_publish.data.dialect import Dialect
from dp_publish.policy.model import Policy
from dp_publish.sampling.keystream import Keystream, insecure_keystream

UNPUBLISHED = (DpGraphError, ValidationError)  # what a publication fails with
Press: TypeAlias = Callable[[pa.Table, Policy, Keystream | None], AbstractContextManager[tuple[Path, Cost]]]
_SEED = 20
_OTHERS = 10  # entities of one row, beside crowds
_MOST_STATES = 64
_TURNS = 24  # batches of one row of each crowd


@dataclass(frozen=True)
class Published:
    """The contents of a bundle of made-up rows as a reader finds them, and the cost that was booked.

    Attributes
    ----------
    release : Release
        The manifest.
    values : ndarray of float64
        The noisy rows, or the noisy matrix of a covariance release.
    cost : Cost
        What was booked.
    seen : dict of str to Any
        Everything else: the manifest as a document but for the time, the names of the members, the size of every row
        group, and the README.
    rounds : Rounds or None
        The other matrices, where a covariance was released in two rounds.
    margins : tuple of Margin
        The histograms, of a release by normal scores.
    """

    release: Release
    values: NDArray[np.float64] = field(repr=False)
    cost: Cost
    seen: dict[str, Any] = field(repr=False)
    rounds: Rounds | None = None
    margins: tuple[Margin, ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False)
class Rounds:
    """The noisy matrix of the first of two rounds, and what the second multiplied its rows by."""

    first: NDArray[np.float64] = field(repr=False)
    transform: NDArray[np.float64] = field(repr=False)


def made_up_policy(policy: Policy, kinds: dict[str, str]) -> Policy:
    """Return a policy for a made-up table of these columns alone; what is spent on it counts towards no budget."""
    privacy = policy.privacy.model_copy(update={"budget_mu": None})
    columns = {name: entry for name, entry in policy.columns.items() if name in kinds}
    return policy.model_copy(update={"privacy": privacy, "columns": columns, "table": Dialect()})


def publish_made_up(press: Press, table: pa.Table, policy: Policy, keystream: Keystream | None = None) -> Published:
    """Publish a made-up table, and open the bundle."""
    with press(table, policy, keystream) as (path, cost), open_bundle(path, UnsafeTrustAnyone()) as bundle:
        covariance = bundle.release.kind == "covariance"
        values = bundle.second_moments() if covariance else _rows(bundle)
        stated, rounds = bundle.release.second_moments, None
        if stated is not None and stated.first_round is not None:
            rounds = Rounds(bundle.first_round(), bundle.transform())
        margins = bundle.margins() if bundle.release.margins is not None else ()
        return Published(bundle.release, values, cost, _seen(bundle), rounds, margins)


def not_published(error: Exception) -> str:
    """Return what is wrong where that failed."""
    return f"made-up rows cannot be published: {error}"


def _rows(bundle: Bundle) -> NDArray[np.float64]:
    batches = [np.column_stack([column.to_numpy() for column in batch.columns]) for batch in bundle.batches()]
    return np.concatenate(batches).astype(np.float64)


def _seen(bundle: Bundle) -> dict[str, Any]:
    document = json.loads(bundle.release.model_dump_json())
    created = document["lineage"].pop("created")
    document["lineage"].pop("ledger_head")  # a hash over the books, and so over the time
    with bundle.open("README.md") as file:
        readme = file.read().decode().replace(created, "")
    layout = []
    for name in bundle.members:
        if name.startswith("data/"):
            with bundle.open(name) as file:
                metadata = pq.ParquetFile(io.BytesIO(file.read())).metadata
            layout += [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    return {"members": list(bundle.members), "row groups": layout, "README.md": readme, **document}


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
    loss: Callable[[Published, NDArray[np.float64]], float]

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
        if pair and not _are_equal(*pair):
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
        except UNPUBLISHED as error:
            self.faults.append(not_published(error))
        else:
            self.faults.append(f"column {name!r} does not refuse its empty cells")

    def publish(self, table: pa.Table, bits: Tap | None = None) -> Published | None:
        """Publish a table with the same random bits as every other; None if that fails, which is a fault."""
        try:
            return publish_made_up(self.press, table, self.policy, bits or Tap())
        except UNPUBLISHED as error:
            self.faults.append(not_published(error))
            return None

    def same_as_numbers(self, raw: pa.Table, of_numbers: Policy, numbers: pa.Table) -> None:
        """Compare releases of raw rows, and of the numbers that they stand for, by a policy for these."""
        one, other = self.publish(raw), replace(self, policy=of_numbers, _first=[]).publish(numbers)
        if one and other and not _are_equal(one, other):
            self.faults.append("raw rows do not come out as the numbers that they stand for")

    def check(self, name: str, detail: str) -> Check:
        """Return the check that nothing was found."""
        return make_check(name, list(dict.fromkeys(self.faults)), detail)


def replay_crowds(replayer: Replayer, cells: Sequence[RawCell]) -> None:
    """Check how many rows are published of entities that have too many, a crowd for every state of the cells.

    Their rows come in turn, first in batches that hold one row of each, so that neither what a row holds nor where
    batches begin can let a row pass the cap unseen. How many rows are left is public, and known beforehand.
    """
    policy, rows = replayer.policy, crowd_rows(replayer.policy)
    if not rows or not policy.privacy.neighbours.n_rows_public:
        return
    n = min(max(cell.n_states for cell in cells), _MOST_STATES)
    turns = np.concatenate([np.arange(_OTHERS) % n, np.tile(np.arange(n), rows)])
    owners = [*name_rows(_OTHERS), *(f"crowd {state}" for state in turns[_OTHERS:])]
    states = np.column_stack([np.minimum(turns, cell.n_states - 1) for cell in cells])
    cuts = [_OTHERS + n * turn for turn in range(min(rows, _TURNS))]
    published = replayer.publish(in_batches(raw_table(policy, raw_arrays(cells, states), owners), cuts))
    allowed = _OTHERS + n * policy.privacy.max_rows
    if published is not None and published.release.n_rows != allowed:
        replayer.faults.append(
            f"{published.release.n_rows} rows were published where entities may have {allowed} in all"
        )


def _are_equal(one: Published, other: Published) -> bool:
    """Return True if two releases have the same values, matrices and histograms."""
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = [(one.values, other.values)]
    if one.rounds is not None and other.rounds is not None:
        pairs += [(one.rounds.first, other.rounds.first), (one.rounds.transform, other.rounds.transform)]
    pairs += [(own.counts, others.counts) for own, others in zip(one.margins, other.margins, strict=True)]
    return all(np.array_equal(own, others) for own, others in pairs)


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
