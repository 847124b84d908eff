"""The page of a plan, put together and written."""

import contextlib
import os
import stat
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote, quote_path
from dp_bundle.describe.sentences import count_columns, describe_unprotected
from dp_bundle.files.new_files import write_whole
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.page.document import Page, render_page
from dp_publish.forecast.findings import describe_findings
from dp_publish.forecast.page.command_lines import Asked, changes_before_moments
from dp_publish.forecast.page.figures import (
    DRAWN_ALPHAS,
    MARKED,
    figures_of,
    needed_table,
    noise_table,
    strengths_table,
)
from dp_publish.forecast.page.positions import Position, positions_of, start_of
from dp_publish.forecast.page.texts import (
    CANDIDATES,
    FALSE_ALARMS,
    SHARES,
    attacker,
    change,
    private_reasons,
    protected,
    texts_of,
    trade_off_points,
)
from dp_publish.forecast.plan import Plan
from dp_publish.policy.coded_columns import raw_names

_TEMPLATES = Path(__file__).with_name("templates")
_MARK = b'<meta name="generator" content="dpgraph plan'  # by which an earlier page is known
_START = 4096  # bytes, in which a page has its mark


def require_page(path: Path) -> None:
    """Refuse a path that no page can have, before any work is done.

    Raises
    ------
    DpGraphError
        There is anything at it but an earlier page, or its name ends in something else.
    """
    ours = not os.path.lexists(path)
    with contextlib.suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            with path.open("rb") as file:
                ours = _MARK in file.read(_START)
    if not ours:
        raise DpGraphError(
            f"there is something at {quote_path(path)} that dp-publish plan did not write: give another --report"
        )
    if path.suffix.lower() not in (".html", ".htm"):
        raise DpGraphError(f"a report is an HTML file: give --report a name that ends in .html, not {quote_path(path)}")


def write_page(plan: Plan, path: Path, asked: Asked) -> None:
    """Write the page of a plan, whole or not at all.

    Parameters
    ----------
    plan : Plan
        The forecast.
    path : Path
        The file to write; see `require_page`.
    asked : Asked
        What was typed, and told.

    Raises
    ------
    DpGraphError
        There is something else at the path by now, or it cannot be written.
    """
    content = make_page(plan, asked).encode()
    require_page(path)
    try:
        write_whole(path, content, replace=os.path.lexists(path))
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error


def make_page(plan: Plan, asked: Asked) -> str:
    """Return the page of a plan as one HTML document that needs no network, the same for the same plan."""
    positions = positions_of(plan)
    start = start_of(plan, positions)
    texts = [texts_of(plan, asked, position) for position in positions]
    guarantee = positions[start].protection.guarantee
    seen, error, needed, trade_off = figures_of(plan, positions, start)
    values: dict[str, Any] = {
        "plan": plan,
        "asked": asked,
        "texts": texts[start],
        "start": start,
        "last": len(positions) - 1,
        "private": private_reasons(plan, asked),
        "change": change(guarantee),
        "protected": protected(plan, guarantee),
        "attacker": attacker(plan, guarantee),
        "unprotected": describe_unprotected(guarantee, plan.release),
        "candidates": CANDIDATES,
        "pairs": guarantee.neighbours.n_rows_public,
        "shares": SHARES,
        "false_alarms": FALSE_ALARMS,
        "deltas": [point.delta for point in guarantee.epsilon_delta],
        "changes": changes_before_moments(plan),
        "findings": " ".join(describe_findings(plan)),
        "figure_seen": seen,
        "figure_error": error,
        "figure_needed": needed,
        "figure_trade_off": trade_off,
        "strengths_table": strengths_table(plan, positions),
        "needed_table": needed_table(plan, positions),
        "columns_table": noise_table(plan),
        "provenance": _provenance(plan, asked, guarantee),
        "software": f"dpgraph {version('dpgraph')}",
    }
    data = {
        "positions": [
            {"mu": position.row.mu, "texts": said, **_marks(position)}
            for position, said in zip(positions, texts, strict=True)
        ]
    }
    figures = [seen, error, needed, trade_off]
    return render_page(Page(_TEMPLATES, "plan.html", f"{plan.name}: a plan", values, figures, ["plan.js"], data))


def _marks(position: Position) -> dict[str, Any]:
    """Return the numbers of one strength that figures show."""
    marks = {name: [read(position.row.rows), read(position.row.moments)] for name, read in MARKED.items()}
    return {**marks, "missed": trade_off_points(position.protection.trade_off, DRAWN_ALPHAS)}


def _provenance(plan: Plan, asked: Asked, guarantee: Guarantee) -> list[tuple[str, str | Sequence[str]]]:
    """Return what the page comes from, by labels."""
    raw = raw_names(plan.kinds, plan.policy.sources)
    noise = {"rows": "noisy rows", "covariance": f"second moments, with {plan.mechanism} noise"}[plan.release]
    unit = (
        guarantee.unit
        if guarantee.entity is None
        else f"{quote(guarantee.entity)}, at most {guarantee.max_rows} rows of each"
    )
    return [
        ("Table", asked.data),
        ("Dataset", plan.name),
        ("Size", f"{plan.n_rows:,} rows, {count_columns(len(plan.kinds), len(raw))}"),
        ("Would be published", noise),
        ("Unit of privacy", unit),
        ("Neighbouring tables", guarantee.neighbours.value),
        (
            "Policy",
            asked.policy.name if asked.policy else "none: one row at mu = 1, with bounds that are found privately",
        ),
        *([("Policy, SHA-256", asked.policy_sha256)] if asked.policy else []),
        ("Made by", f"dpgraph {version('dpgraph')}"),
    ]
