"""The workers of a cluster, and the private place where they leave what they make for each other and the publisher."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.base.engine import Dask, Engine
from dp_bundle.base.errors import ParameterError, StoreError
from dp_bundle.files.opening import open_store, require_create_only
from dp_bundle.files.places import Store, located


@dataclass(frozen=True)
class Cluster:
    """Workers, and where they stage what they make.

    Attributes
    ----------
    engine : Engine
        Runs tasks.
    staging : str
        A folder or URI that all workers and this process can write, and nobody else can read.
    is_temporary : bool
        Whether it goes with the cluster.
    """

    engine: Engine
    staging: str
    is_temporary: bool = False


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
        yield Cluster(ending.enter_context(Dask(scheduler)), whole_place(place), is_temporary=not staging)


def require_apart(cluster: Cluster, out: str | os.PathLike[str]) -> None:
    """Refuse to stage where the bundle goes.

    Raises
    ------
    ParameterError
        One of the places is that of staging.
    """
    if whole_place(out).rstrip("/") == whole_place(cluster.staging).rstrip("/"):
        raise ParameterError("--staging", "another place than that of the bundle", cluster.staging)


def whole_place(place: str | os.PathLike[str]) -> str:
    """Return the absolute path of a place here, or the URI of one elsewhere."""
    found = located(place)
    return str(found.absolute()) if isinstance(found, Path) else found.uri


def prepare_staging(staging: str, name: str) -> Store:
    """Return the staging place, after a look whether it can be written and replaces nothing.

    The folder of the job is for its owner alone.

    Raises
    ------
    StoreError
        It cannot be written, or it replaces what is there.
    """
    store, place = open_store(staging), located(staging)
    if isinstance(place, Path):
        try:
            (place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(staging, f"nothing can be staged there: {error.strerror}") from error
    require_create_only(store)
    return store


def changed_there(store: Store) -> StoreError:
    """Return the error for something that was staged and is not what it was."""
    return StoreError(store.uri, "the job was changed there: publish again, and stage where only you can write")


def is_here(store: Store) -> bool:
    """Return True for a folder, whose workers have every core to themselves; others are waited for."""
    return isinstance(located(store.uri), Path)
