"""The way that learn, compare and joint take: from bundles to samples, and from what was learned to a result."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, TypeVar

from dp_bundle import Bundle, open_bundles
from dp_bundle.base.quoting import quote_path
from dp_bundle.manifest.release import shape_of
from dp_learn.covariance.consistency import find_bundle_contradictions
from dp_learn.covariance.sample import Sample, read_samples
from dp_learn.covariance.sources import share_rows
from dp_learn.matrices.linalg import few_threads
from dp_learn.pipeline.memory import require_learnable

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
