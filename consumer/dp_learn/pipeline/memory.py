"""The memory that learning may need, and its time, from the shape of a release: known before a number of it is read.

Rows are streamed, so that only the columns count: what holds a number for every pair of them, and the libraries. What
has to be compiled, once on a machine, is known only when it is needed. The constants were measured, as peak resident
memory of commands at 10 to 2,000 columns; the tests measure again. Time is that of a sparse graph.
"""

import math

from dp_bundle.base.machine import describe_need, require_memory
from dp_bundle.base.quoting import counted
from dp_bundle.manifest.release import Shape

_LIBRARIES, _OTHER_LIBRARIES = 400 * 10**6, 500 * 10**6  # of what has `_MATRICES`, and of others
_COMPILING = 500 * 10**6
_PER_COLUMN, _MOST_COLUMNS = 500_000, 500  # solvers and pages of larger problems, whose code is loaded by and by
_WORKER = 250 * 10**6  # one process of Dask's
_NUMBER = 8
_MATRICES = {"graphical-lasso": 60, "regression": 40, "lda": 40}  # of a number for every pair of columns
_OF_OTHERS = 130  # of estimators whose graph may be dense: a table of all pairs is written
_OF_BUNDLE, _OF_PERIOD = 8, 30  # of each further bundle, pooled or learned together
_SECONDS, _SECONDS_PER_SQUARE = 6.0, 1.8e-5  # of one core


def learning_memory(n_columns: int, *, estimator: str, n_bundles: int = 1, n_workers: int = 0) -> int:
    """Return the bytes of memory that learning may need at its peak.

    Compiling takes more, once on a machine: see `require_compilable`.

    Parameters
    ----------
    n_columns : int
        Of each bundle.
    estimator : str
        The name that `--estimator` has for it.
    n_bundles : int
        How many are pooled.
    n_workers : int
        How many processes of Dask are started here.
    """
    each = _OF_PERIOD if estimator == "joint" else _OF_BUNDLE
    matrices = _MATRICES.get(estimator, _OF_OTHERS) + each * (n_bundles - 1)
    libraries = _LIBRARIES if estimator in _MATRICES else _OTHER_LIBRARIES
    own = libraries + _PER_COLUMN * min(n_columns, _MOST_COLUMNS) + matrices * _NUMBER * n_columns**2
    return own + n_workers * _WORKER


def require_learnable(
    shape: Shape,
    limit: int | None = None,
    *,
    estimator: str = "graphical-lasso",
    n_bundles: int = 1,
    n_workers: int = 0,
) -> int:
    """Return the bytes that learning from a release may need, if it may have as many.

    Parameters
    ----------
    shape : Shape
        Of the release.
    limit : int, optional
        Bytes; by default what this machine can give.
    estimator, n_bundles, n_workers
        As of `learning_memory`.

    Raises
    ------
    MemoryLimitError
        It may need more.
    """
    needed = learning_memory(shape.n_columns, estimator=estimator, n_bundles=n_bundles, n_workers=n_workers)
    return require_memory(needed, limit, f"learning from {shape.n_columns:,} columns")


def describe_work(needed: int, n_columns: int, estimator: str) -> list[str]:
    """Return the sentences that announce learning that may need so many bytes, where they are many."""
    notes = describe_need(needed)
    if notes and estimator == "graphical-lasso":
        minutes = counted(math.ceil((_SECONDS + _SECONDS_PER_SQUARE * n_columns**2) / 60.0), "minute")
        notes.append(
            f"note: a sparse graph of {n_columns:,} columns takes about {minutes} of one core, a dense one more"
        )
    return notes


def require_compilable(needed: int, limit: int | None = None) -> None:
    """Refuse, by `MemoryLimitError`, to compile beside learning that needs so many bytes, if that may need too many.

    It is asked just before the first step is compiled, when nothing has been written. What the machine can give is then
    what the libraries have left.
    """
    in_all = _COMPILING if limit is None else needed + _COMPILING
    require_memory(in_all, limit, "compiling, which is to be done once on this machine,", remedy="")
