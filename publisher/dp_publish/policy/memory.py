"""The memory that the publisher's commands may need, from the shape of a table: known before a row of it is read.

Rows are read in batches. So what counts are the columns, the cores that work at once, and how large the pieces are that
a file can be read in. Each core holds a page of every column, packed and unpacked. The constants were measured, with
libraries that were just installed. They are the peak resident memory of commands at 2 to 20,000 columns and pieces of
50 to 200,000 rows. The kernel then maps larger parts of their files at once, 30 to 60 MB more. The tests measure again.
"""

from dp_bundle.base.machine import count_cores, require_memory
from dp_bundle.data.rows import batch_rows
from dp_publish.data.table import Table
from dp_publish.policy.choices import ReleaseKind

_TEMPLATE, _PER_NAME = 160 * 10**6, 4_000
_FORECAST, _PER_FORECAST = 380 * 10**6, 10_000  # with its page
_LIBRARIES = 450 * 10**6  # and compiling, which is once on a machine
_TEXT = 450 * 10**6  # of a text file: as many rows at once as the bytes allow, and what is kept of it
_WORKER = 250 * 10**6  # one process of Dask's
_NUMBER = 8
_PAGE = 2**20  # bytes of a column that a Parquet file holds together, by default
_OF_BATCH = 5 * _NUMBER  # for each cell of a batch, on its way into a part or into sums
_OF_PIECE = 4  # copies of a page
_PER_COLUMN = 30_000
_MOMENTS = 20 * _NUMBER  # for each pair of columns: exact sums, noise, and the matrices that are published
_CELLS_AT_ONCE = 2**25  # of the batches of all threads together


def count_threads(n_columns: int) -> int:
    """Return how many threads there are to be, each of which holds a few batches of all columns."""
    cells = batch_rows(n_columns) * n_columns
    return max(1, min(count_cores(), _CELLS_AT_ONCE // cells))


def template_memory(n_columns: int) -> int:
    """Return the bytes that `dp-publish policy` may need at its peak, for a table with so many columns."""
    return _TEMPLATE + _PER_NAME * n_columns


def plan_memory(n_columns: int) -> int:
    """Return the bytes that `dp-publish plan` may need at its peak, for so many columns of either kind of release."""
    return _FORECAST + _PER_FORECAST * n_columns


def publishing_memory(
    n_columns: int,
    release: ReleaseKind,
    piece_rows: int | None,
    *,
    n_rows: int | None,
    n_read: int | None = None,
    n_workers: int = 0,
) -> int:
    """Return the bytes that `dp-publish` may need at its peak.

    Parameters
    ----------
    n_columns : int
        That are published: of a category, each of its levels.
    release : {"rows", "covariance"}
        What is published.
    piece_rows : int or None
        The rows of the table's largest piece that has to be decoded, 0 if none has; None of text.
    n_rows : int or None
        All of them, where that is known.
    n_read : int, optional
        The columns that are read of the table, as many as are published by default.
    n_workers : int
        How many processes of Dask are started here, each for one core.
    """
    batch = min(batch_rows(n_columns), n_rows if n_rows is not None else batch_rows(n_columns))
    of_pages = _OF_PIECE * min(_NUMBER * (piece_rows or 0), _PAGE) * (n_columns if n_read is None else n_read)
    of_cores = (_OF_BATCH * batch * n_columns + of_pages) * max(count_threads(n_columns), n_workers)
    own = _LIBRARIES + _PER_COLUMN * n_columns + of_cores
    of_pairs = _MOMENTS * n_columns**2 if release != "rows" else 0
    return own + of_pairs + _WORKER * n_workers + (_TEXT if piece_rows is None else 0)


def require_publishing(
    table: Table, n_columns: int, n_read: int, release: ReleaseKind, limit: int | None, *, n_workers: int = 0
) -> int:
    """Return the bytes that `dp-publish` may need for a table, or raise `MemoryLimitError`."""
    piece_rows, n_rows = table.pieces()
    what = "second moments" if release != "rows" else "rows"
    needed = publishing_memory(n_columns, release, piece_rows, n_rows=n_rows, n_read=n_read, n_workers=n_workers)
    return require_memory(needed + table.held, limit, f"publishing {what} of {n_columns:,} columns")
