"""The folder of results that dp-learn writes: whole, or not at all, and on the disk when it is there.

A marker in the folder lists the files that dp-learn wrote, with their sizes and times. A folder that holds anything
else, or whose files were changed since, is never replaced. A new result is written next to the folder, and the two are
exchanged in one step where the system can do that. What a killed run left there, the next one removes.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.launch import interrupts_held
from dp_bundle.base.quoting import guard_cell, quote_path
from dp_bundle.files.new_files import settle
from dp_bundle.files.new_folders import clear_unfinished, hidden_folder
from dp_bundle.files.renaming import UNSUPPORTED, exchange, rename_new, sync_folder
from dp_learn.output.graph_files import write_estimate
from dp_learn.output.messages import title_of
from dp_learn.output.summary import Result

if TYPE_CHECKING:
    import pandas as pd  # takes as long to import as a small graph takes to learn

_MARKER = ".dpgraph-result.json"


def foreign_content(folder: Path) -> str | None:
    """Return the reason not to replace a folder, in words; None if it is empty or an unchanged earlier result."""
    if not folder.is_dir():
        return "is not a folder"
    if folder.resolve() == Path.cwd().resolve():
        return "is the folder that the command runs in"
    found = sorted(path.name for path in folder.iterdir())
    written = _read_marker(folder)
    if found and written is None:
        return f"holds {quote_path(found[0])}, and is not a result of dp-learn"
    for name in found:
        state = _state(folder / name)
        if name != _MARKER and (state is None or state != (written or {}).get(name)):
            return f"holds {quote_path(name)}, which dp-learn did not write, or which has changed since"
    return None


def write_results(result: Result, target: Path, *, report: str | None = None) -> None:
    """Write everything into a hidden folder beside the target, then put it in place of an earlier result.

    Parameters
    ----------
    result : Result
        The graph, or other tables, and the summary.
    target : Path
        The folder.
    report : str, optional
        The page of the result, for report.html.

    Raises
    ------
    DpGraphError
        It cannot be written, or the target is by now something else than an earlier result, which stays as it is.
    """
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with hidden_folder(target, 0o777) as new:
            _write_all(result, report, new)
            with interrupts_held(f"the results are in {target}"):
                _put_in_place(new, target)
        clear_unfinished(target, _is_left_over)
    except OSError as error:
        raise DpGraphError(f"the results cannot be written to {target}: {error.strerror or error}") from error


def _write_all(result: Result, report: str | None, new: Path) -> None:
    """Write all files of a result; the marker says until the end that they are not all there."""
    from dp_learn.output.picture import draw_graph  # Pillow, which the pass over the rows has no use for

    (new / _MARKER).write_text(json.dumps({"unfinished": True}) + "\n", encoding="utf-8")
    if result.graph is not None:
        write_estimate(result.graph, new)
        title = title_of(result.summary, result.bundles)
        draw_graph(result.graph, new / "graph.png", title, result.summary["drowned_columns"])
    for name, table in result.tables.items():
        _write_frame(table, new / name)
    text = json.dumps(result.summary, indent=1, ensure_ascii=False, allow_nan=False)
    (new / "summary.json").write_text(text + "\n", encoding="utf-8")
    if report is not None:
        (new / "report.html").write_text(report, encoding="utf-8")
    _settle_all(new)


def _settle_all(folder: Path) -> None:
    """Bring all files of a new result to the disk, and list them in its marker."""
    written = {path.name: _state(path) for path in sorted(folder.iterdir())}
    (folder / _MARKER).write_text(json.dumps({"files": written}, indent=1) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb+") as file:
            settle(file)
    sync_folder(folder)


def _put_in_place(new: Path, target: Path) -> None:
    """Give the new folder the target's name, and remove an earlier result that had it."""
    if not os.path.lexists(target):
        _rename(new, target)
        sync_folder(target.parent)
        return
    _require_ours(target, target)
    _take_over_permissions(target, new)
    if not exchange(new, target):
        _change_places(new, target)
    elif foreign_content(new) is not None:
        exchange(new, target)
        _require_ours(target, target)
    sync_folder(target.parent)
    _remove(new)


def _change_places(new: Path, target: Path) -> None:
    """Let two folders change names in three steps, unless what had the target's is no earlier result by then."""
    aside = new.with_suffix("")
    os.rename(target, aside)  # noqa: PTH104
    try:
        _require_ours(aside, target)
        os.rename(new, target)  # noqa: PTH104
    except BaseException:
        os.rename(aside, target)  # noqa: PTH104
        raise
    os.rename(aside, new)  # noqa: PTH104


def _rename(new: Path, target: Path) -> None:
    try:
        rename_new(new, target)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.rename(new, target)  # noqa: PTH104  onto nothing, or onto an empty folder


def _take_over_permissions(earlier: Path, new: Path) -> None:
    """Give a folder and its files the mode, and where possible the owner, of those that they replace."""
    for path in (new, *new.iterdir()):
        replaced = earlier if path == new else earlier / path.name
        if replaced.exists():
            status = replaced.stat()
            with contextlib.suppress(PermissionError):
                os.chown(path, status.st_uid, status.st_gid)
            path.chmod(stat.S_IMODE(status.st_mode))


def _remove(earlier: Path) -> None:
    """Remove the files that the marker lists, and the folder if nothing else is in it by now."""
    for name in [*(_read_marker(earlier) or {}), _MARKER]:
        (earlier / name).unlink(missing_ok=True)
    try:
        earlier.rmdir()
    except OSError as error:
        kept = earlier.with_suffix("")  # which no later run removes
        earlier.rename(kept)
        raise DpGraphError(
            f"the result is written; files that others put into the earlier result are now at {quote_path(kept)}"
        ) from error


def _is_left_over(folder: Path) -> bool:
    """Return whether a hidden folder holds an unfinished result, or an unchanged one that was replaced."""
    try:
        unfinished = bool(json.loads((folder / _MARKER).read_bytes())["unfinished"])
    except (OSError, ValueError, TypeError, KeyError):
        unfinished = False
    return unfinished or foreign_content(folder) is None


def _require_ours(folder: Path, name: Path) -> None:
    why = foreign_content(folder)
    if why is not None:
        raise DpGraphError(f"{quote_path(name)} {why}: give another --out")


def _read_marker(folder: Path) -> dict[str, Any] | None:
    """Return the files that a result had when it was written; None if it is none."""
    try:
        path = folder / _MARKER
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        files = json.loads(path.read_bytes())["files"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return files if isinstance(files, dict) and all("/" not in name for name in files) else None


def _state(path: Path) -> list[int] | None:
    """Return the size and time of a file, which tell whether it has changed; None if it is not a regular file."""
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns] if stat.S_ISREG(status.st_mode) else None


def _write_frame(table: pd.DataFrame, path: Path) -> None:
    import pandas as pd

    guarded = table.rename(columns=guard_cell)
    for name in guarded.select_dtypes(exclude="number"):
        guarded[name] = guarded[name].map(guard_cell)
    if isinstance(table.index, pd.RangeIndex):
        guarded.to_csv(path, index=False)
    else:
        guarded.rename(index=guard_cell).to_csv(path)
