"""The workers of a cluster, and the private place where they leave what they make for each other and the publisher."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.engines import Dask, Engine
from dp_bundle.errors import ParameterError, StoreError
from dp_bundle.store import Store, located, open_store


@dataclass(frozen=True)
class Cluster:
    """Workers, and where they stage what they make.

    Attributes
    ----------
    engine : Engine
        Runs tasks.
    staging : str
        A folder or URI that all workers and this process can write, and nobody else can read.
    """

    engine: Engine
    staging: str


@contextlib.contextmanager
def dask_cluster(scheduler: str | None = None, staging: str | None = None) -> Iterator[Cluster]:
    """Use the workers of Dask for the length of a block.

    Parameters
    ----------
    scheduler : str, optional
        The address of their scheduler; by default, a worker for each core is started on this machine.
    staging : str, optional
        As of `Cluster`; by default, a folder among the temporary files of this machine, which ends with the block.

    Raises
    ------
    ParameterError
        There is a scheduler and no staging place, or the address cannot be used.
    """
    if scheduler is not None and staging is None:
        allowed = "given with --scheduler: a folder or URI that its workers and this process can write"
        raise ParameterError("--staging", allowed, None)
    with contextlib.ExitStack() as ending:
        place = staging or ending.enter_context(tempfile.TemporaryDirectory(prefix="dpgraph-staging-"))
        yield Cluster(ending.enter_context(Dask(scheduler)), place)


def read_staged(store: Store, name: str, sha256: str) -> bytes:
    """Return what was staged under a name.

    Raises
    ------
    StoreError
        It no longer has this digest, in hexadecimal digits.
    """
    content = store.read(name)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StoreError(store.uri, "the job was changed there: publish again, and stage where only you can write")
    return content


def remove_staged(staging: str, name: str) -> None:
    """Remove all that a job staged, as far as the staging place lets us."""
    with contextlib.suppress(StoreError, OSError):
        store = open_store(staging)
        for each in store.names(name):
            store.delete(each)


def is_here(store: Store) -> bool:
    """Return True for a folder, whose workers have every core to themselves; others are waited for."""
    return isinstance(located(store.uri), Path)
