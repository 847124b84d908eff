"""A key that a reader trusts, and the line of keys that it belongs to: a publisher's, from her first key on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dp_bundle.trust.signing import PublicKey


@dataclass(frozen=True)
class TrustedKey:
    """A key the reader trusts, with the name that the reader gave it.

    Attributes
    ----------
    key : PublicKey
    name : str
    until : str or None
        The last day of the reader's trust, as YYYY-MM-DD in UTC.
    datasets : tuple of str or None
        The datasets for which it is trusted; None for all.
    predecessors : tuple of PublicKey
        The keys whose successor it is, oldest first.
    """

    key: PublicKey
    name: str
    until: str | None = None
    datasets: tuple[str, ...] | None = None
    predecessors: tuple[PublicKey, ...] = ()

    @property
    def root(self) -> PublicKey:
        """The oldest key of its line, which stands for the publisher."""
        return self.predecessors[0] if self.predecessors else self.key

    def covers(self, dataset: str) -> bool:
        """Return True if the key is trusted for a dataset."""
        return self.datasets is None or dataset in self.datasets


Entries = Mapping[PublicKey, TrustedKey]


def root_of(key: PublicKey, entries: Entries) -> PublicKey:
    """Return the oldest key of a key's line, as far as the trusted keys tell."""
    return entries[key].root if key in entries else key


def line_of(key: PublicKey, entries: Entries) -> list[PublicKey]:
    """Return the keys of one publisher, who share one chain of releases: this one, predecessors and successors."""
    root = root_of(key, entries)
    members = [each for entry in entries.values() if entry.root == root for each in (*entry.predecessors, entry.key)]
    return list(dict.fromkeys([root, *members, key]))
