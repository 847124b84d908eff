"""The way that learn, compare and joint take: from bundles to samples, and from what was learned to a result.

The memory that learning may need, and its time, from the shape of a release: known before a number of it is read.

Rows are streamed, so that only the columns count: what holds a number for every pair of them, and the libraries. What
has to be compiled, once on a machine, is known only when it is needed. The constants were measured, as peak resident
memory of commands at 10 to 2,000 columns; the tests measure again. Time is that of a sparse graph.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, TypeVar

from dp_bundle import Bundle, open_bundles
from dp_bundle.base.machine import describe_need, require_memory
from dp_bundle.base.quoting import counted, quote_path
from dp_bundle.manifest.release import Shape, shape_of
from dp_learn.covariance.consistency import find_bundle_contradictions
from dp_learn.covariance.sample import Sample, read_samples
from dp_learn.covariance.sources import share_rows
from dp_learn.matrices.linalg import few_threads

Given = Bundle | str | PathLike[str]  # open, or where it lies
Progress = Callable[[str], None]
Found = TypeVar("Found", bound=Any)  # Learned, Comparison, or Joint: it has `notes` and `contradictions`


@contextmanager
def opened(bundles: Given | Sequence[Given]) -> Iterator[list[Bundle]]:
    """Yield one bundle or several, of which those that are paths or URIs are verified, and open within the block.

    Raises
    ------
    BundleError, StoreError
        As of `open_bundle`.
    """
    given = [bundles] if isinstance(bundles, Bundle | str | PathLike) else bundles
    with ExitStack() as stack:
        paths = [each for each in given if not isinstance(each, Bundle)]
        found = iter([stack.enter_context(each) for each in open_bundles(paths)])
        yield [each if isinstance(each, Bundle) else next(found) for each in given]


@dataclass(frozen=True)
class Reading:
    """How bundles are read, and for what.

    Attributes
    ----------
    estimator : str
        What is learned, for the memory that it may need.
    n_folds : int
        How many folds of the rows are kept apart.
    done : str or None
        What is done with each release by itself, in an error's words; None for releases that are pooled.
    blocks : bool
        Whether columns may be categories, or have published gaps.
    """

    estimator: str = "graphical-lasso"
    n_folds: int = 1
    done: str | None = None
    blocks: bool = True

    def read(self, bundles: Sequence[Bundle]) -> tuple[list[Sample], list[str]]:
        """Return a sample of all bundles or one of each, and sentences on gaps too few to inform."""
        if self.done is not None:
            return read_samples(
                bundles, lambda each: [Sample([one]) for one in each], done=self.done, blocks=self.blocks
            )
        same_rows = share_rows(bundles)
        return read_samples(bundles, lambda each: [Sample(each, n_folds=self.n_folds, same_rows=same_rows)])


def learn_from(
    bundles: Sequence[Bundle],
    reading: Reading,
    learn: Callable[[list[Sample], Progress, list[str]], Found],
    *,
    progress: Progress | None = None,
    max_memory: int | None = None,
) -> Found:
    """Return what is learned from bundles, with what a reader should know of them.

    Parameters
    ----------
    bundles : sequence of Bundle
        Verified and open, at least one.
    reading : Reading
        How they are read.
    learn : callable
        Takes the samples, `progress`, and a sentence for everything in which a bundle contradicts its manifest.
    progress : callable, optional
        Called with a few words on every step when it begins.
    max_memory : int, optional
        Bytes; learning that may need more is refused before it begins. By default what this machine can give.

    Raises
    ------
    SchemaError
        The bundles have other columns, or cannot be learned from together.
    EstimationError
        There is no estimate.
    MemoryLimitError
        It may need more memory than it may have.
    """
    shape = shape_of(bundles[0].release)
    require_learnable(shape, max_memory, estimator=reading.estimator, n_bundles=len(bundles))
    begin = progress or (lambda _: None)
    with few_threads(len(bundles[0].release.columns)):
        begin("reading the rows")
        samples, notes = reading.read(bundles)
        groups = [bundles] if reading.done is None else [[bundle] for bundle in bundles]
        contradictions = [
            sentence if reading.done is None else f"{quote_path(own[0].path)}: {sentence}"
            for own, sample in zip(groups, samples, strict=True)
            for sentence in find_bundle_contradictions(own, sample)
        ]
        for sample in samples:
            sample.forget_products()
        found = learn(samples, begin, contradictions)
        return replace(found, notes=[*notes, *found.notes], contradictions=contradictions)


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
