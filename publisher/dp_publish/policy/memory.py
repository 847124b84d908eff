"""The memory that the publisher's commands may need, from the shape of a table: known before a row of it is read.

Rows are read in batches, so that only the columns count, and the cores that work at once. The constants were measured,
as peak resident memory of commands at 100 to 20,000 columns; the tests measure again.
"""

from __future__ import annotations

from dp_bundle.memory import require_memory
from dp_bundle.startup import count_cores
from dp_publish.policy.choices import ReleaseKind

_TEMPLATE, _PER_NAME = 110 * 10**6, 4_000
_FORECAST, _PER_FORECAST = 190 * 10**6, 10_000
_LIBRARIES = 300 * 10**6
_WORKER = 250 * 10**6  # one process of Dask's
_OF_CORE = 50_000  # bytes for each column, of noisy rows on their way into a part
_OF_BLOCK = 200_000  # of the rows of which second moments are summed
_MOMENTS = 20 * 8  # for each pair of columns: exact sums, noise, and the matrices that are published


def template_memory(n_columns: int) -> int:
    """Return the bytes that `dp-publish policy` may need at its peak, for a table with so many columns."""
    return _TEMPLATE + _PER_NAME * n_columns


def plan_memory(n_columns: int) -> int:
    """Return the bytes that `dp-publish plan` may need at its peak, for so many columns of either kind of release."""
    return _FORECAST + _PER_FORECAST * n_columns


def publishing_memory(n_columns: int, release: ReleaseKind, *, n_workers: int = 0) -> int:
    """Return the bytes that `dp-publish` may need at its peak.

    Parameters
    ----------
    n_columns : int
        That are published: of a category, each of its levels.
    release : {"rows", "covariance"}
        What is published.
    n_workers : int
        How many processes of Dask are started here, each for one core.
    """
    own = _OF_BLOCK if release == "covariance" else _OF_CORE
    of_pairs = _MOMENTS * n_columns**2 if release == "covariance" else 0
    return _LIBRARIES + own * n_columns * max(count_cores(), n_workers) + of_pairs + _WORKER * n_workers


def require_template(n_columns: int, limit: int | None) -> int:
    """Return the bytes that `dp-publish policy` may need, or raise `MemoryLimitError`; None is the machine's own."""
    return require_memory(template_memory(n_columns), limit, f"a policy for {n_columns:,} columns")


def require_plan(n_columns: int, limit: int | None) -> int:
    """Return the bytes that `dp-publish plan` may need, or raise `MemoryLimitError`."""
    return require_memory(plan_memory(n_columns), limit, f"a forecast for {n_columns:,} columns")


def require_publishing(n_columns: int, release: ReleaseKind, limit: int | None, *, n_workers: int = 0) -> int:
    """Return the bytes that `dp-publish` may need, or raise `MemoryLimitError`."""
    what = "second moments" if release == "covariance" else "rows"
    needed = publishing_memory(n_columns, release, n_workers=n_workers)
    return require_memory(needed, limit, f"publishing {what} of {n_columns:,} columns")
