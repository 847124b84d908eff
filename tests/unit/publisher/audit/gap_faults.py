"""Faults in what stands in gaps, for tests of the audit."""

from __future__ import annotations

from typing import Any

import pytest


def fill_at_the_lower_bound(patch: pytest.MonkeyPatch, module: Any) -> None:
    """Let gaps stand at the lower bound, which is twice as far from the upper one as the middle is."""
    honest = module.fill_missing

    def fill(values: Any, column: Any, report: Any) -> Any:
        low, _ = column.bounds
        lower = column.model_copy(update={"bounds": (low, low)}) if column.missing == "indicator" else column
        return honest(values, lower, report)

    patch.setattr(module, "fill_missing", fill)
