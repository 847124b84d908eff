"""Accounts of tables with the same columns: a copy under a new name would be paid for from an account of its own."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.manifest.columns import source_names
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.ledger.books import Books

_MOST = 20  # accounts that are looked at, those that were begun last
_ENOUGH = 0.5  # of the columns, as some are left out of a release


def find_alike(books: Books, dataset: str, names: Collection[str]) -> str | None:
    """Return another dataset whose columns a table has, if this one has no release yet; what is compared is public.

    Parameters
    ----------
    books : Books
        What was released. Of each dataset, its newest bundle is looked at, if it still is on this machine.
    dataset : str
        The account that would be begun.
    names : collection of str
        The table's columns.
    """
    newest = {entry.dataset: entry for entry in books.standing() if entry.file}
    if books.standing(dataset):
        return None
    for entry in [*newest.values()][-_MOST:]:
        if count_shared(entry.file, names) >= _ENOUGH * len(names):
            return entry.dataset
    return None


def count_shared(file: str | None, names: Collection[str]) -> int:
    """Return how many columns a bundle has, if it is on this machine and all of them are a table's; else 0."""
    with suppress(DpGraphError, OSError):
        with open_bundle(Path(file or ""), UnsafeTrustAnyone()) as bundle:
            published = {*source_names(bundle.release.columns)}
        return len(published) * (published <= {*names})
    return 0
