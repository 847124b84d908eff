"""Noisy rows of numbers and categories, as a source."""

import numpy as np
from numpy.typing import NDArray

from dp_bundle.manifest.columns import Source
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.moments import Rows
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import RowSource
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.learn import Learned, learn_sample
from dp_learn.pipeline.settings import Settings


def mixed_sample(table: dict[str, NDArray[np.generic]], sigma: float, seed: int = 0) -> Sample:
    """Return the rows of a table with normal noise; columns of whole numbers are categories."""
    rng = np.random.default_rng(seed)
    columns, names, nodes, sources = list[FloatArray](), list[str](), list[str](), list[Source]()
    for name, values in table.items():
        own = (name,)
        if np.issubdtype(values.dtype, np.integer):
            levels = [str(level) for level in range(int(values.max()) + 1)]
            own = tuple(f"{name}={level}" for level in levels)
            sources.append(Source(name=name, kind="category", columns=own, levels=tuple(levels)))
            columns.append((values[:, None] == np.arange(len(levels))).astype(float))
        else:
            columns.append(values[:, None].astype(float))
        names += own
        nodes += [name] * len(own)
    clean = np.hstack(columns)
    rows = clean + sigma * rng.normal(size=clean.shape)
    source = RowSource(
        tuple(names),
        np.full(len(names), sigma**2),
        np.zeros(len(names)),
        None,
        lambda: [Rows(0, lambda: rows)],
        Levels(tuple(nodes), tuple(sources)),
    )
    return Sample([source])


def learn_mixed(sample: Sample, *, fdr: float | None = None, error_bars: bool = True) -> Learned:
    """Return what was learned of a table with categories."""
    return learn_sample(sample, Settings(), fdr, error_bars=error_bars)
