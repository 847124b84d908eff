"""How far an estimate can be relied on: whether it can be tested, and what is left of the penalty."""

from __future__ import annotations

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.pipeline.settings import Settings

FEWEST_ROWS = 50  # with fewer, nothing is normal: tests at 5 % found false edges in 12 % and more


def require_testable(pooled: PooledCovariance) -> None:
    """Refuse tests of an estimate whose errors have no known law, or of too few rows.

    Raises
    ------
    EstimationError
        There are no error bars; the sentence says why.
    """
    if not pooled.has_error_law:
        raise EstimationError(
            "the distribution of a release's errors is not known, so there are no intervals and no tests"
        )
    fewest = min(source.n_rows for source in pooled.sources)
    if fewest < FEWEST_ROWS:
        raise EstimationError(f"error bars and tests need at least {FEWEST_ROWS} rows, and there are {fewest}")


def describe_share(share: float, settings: Settings) -> list[str]:
    """Return a note on weights that had to keep some of the penalty although a refit was asked for."""
    if not settings.refit or share == 0.0:
        return []
    if share < 1.0:
        return [
            "the debiased covariance is so indefinite that the graph has no unpenalised fit: its weights keep "
            f"{share:.0%} of the penalty and are shrunk by it"
        ]
    return ["the graph could not be fitted without the penalty: its weights are the penalised estimate's, and shrunk"]
