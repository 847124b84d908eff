"""The folder of results that dp-learn writes: whole, or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_bundle.errors import DpGraphError
from dp_bundle.quoting import guard_cell
from dp_learn.graph import GraphEstimate, write_estimate

if TYPE_CHECKING:
    import pandas as pd  # takes as long to import as a small graph takes to learn

__all__ = ["is_result", "write_results"]

_FILES = {
    "coefficients.csv",
    "covariance.csv",
    "edges.csv",
    "graph.graphml",
    "graph.png",
    "means.csv",
    "precision.csv",
    "ranking.csv",
    "summary.json",
    "thresholded.csv",
}


def is_result(folder: Path) -> bool:
    """Return whether a folder may be replaced: it is empty or an earlier result of ours, and not where we are.

    Files of the names that dp-learn writes are not enough, as others write an edges.csv too: a summary.json must name
    the estimator and the bundles that the result came from.
    """
    if not folder.is_dir() or folder.resolve() == Path.cwd().resolve():
        return False
    found = list(folder.iterdir())
    if not all(path.name in _FILES and path.is_file() and not path.is_symlink() for path in found):
        return False
    return not found or _is_summary(folder / "summary.json")


def _is_summary(path: Path) -> bool:
    try:
        summary = json.loads(path.read_bytes())
        digests = [bundle["manifest_sha256"] for bundle in summary["bundles"]]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return bool(digests) and "estimator" in summary


def write_results(
    graph: GraphEstimate | None, tables: dict[str, pd.DataFrame], summary: dict[str, Any], title: str, target: Path
) -> None:
    """Write everything into a hidden folder beside the target, then put it in place of an earlier result.

    Raises
    ------
    DpGraphError
        It cannot be written, or the target is by now something else than an earlier result, which stays as it is.
    """
    from dp_learn.report.picture import draw_graph  # Pillow, which the pass over the rows has no use for

    target = target.resolve()
    partial, earlier = (target.with_name(f".{target.name}.{secrets.token_hex(8)}") for _ in range(2))
    try:
        partial.mkdir(parents=True)
        if graph is not None:
            write_estimate(graph, partial)
            draw_graph(graph, partial / "graph.png", title, summary["drowned_columns"])
        for name, table in tables.items():
            _write_frame(table, partial / name)
        text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
        (partial / "summary.json").write_text(text + "\n", encoding="utf-8")
        _put_in_place(partial, target, earlier)
    except OSError as error:
        raise DpGraphError(f"the results cannot be written to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, target: Path, earlier: Path) -> None:
    """Rename the new folder to the target; what was there is removed last, and only if it was an earlier result."""
    if not os.path.lexists(target):
        os.rename(partial, target)  # noqa: PTH104
        return
    os.rename(target, earlier)  # noqa: PTH104
    try:
        _require_result(earlier, target)
        os.rename(partial, target)  # noqa: PTH104
    except BaseException:
        os.rename(earlier, target)  # noqa: PTH104
        raise
    shutil.rmtree(earlier, ignore_errors=True)


def _require_result(folder: Path, name: Path) -> None:
    if not is_result(folder):
        raise DpGraphError(f"{name} is no longer an earlier result of dp-learn: give another --out")


def _write_frame(table: pd.DataFrame, path: Path) -> None:
    import pandas as pd

    guarded = table.rename(columns=guard_cell)
    for name in guarded.select_dtypes(exclude="number"):
        guarded[name] = guarded[name].map(guard_cell)
    if isinstance(table.index, pd.RangeIndex):
        guarded.to_csv(path, index=False)
    else:
        guarded.rename(index=guard_cell).to_csv(path)
