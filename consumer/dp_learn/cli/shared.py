"""What the commands of dp-learn share: the folder for results, and the command that gives the same result."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from dp_bundle.base.errors import ParameterError

WITHOUT_EFFECT = {"out", "report", "as_json", "quiet", "engine", "scheduler", "max_memory"}  # on what is found


def require_result(folder: Path) -> None:
    """Refuse a folder for results where there is something else than an earlier one."""
    if not os.path.lexists(folder):
        return
    from dp_learn.output.folder import foreign_content

    if (why := foreign_content(folder)) is not None:
        raise ParameterError("--out", f"a new folder, or an earlier result of dp-learn (this {why})", str(folder))


def spell_command(name: str = "dp-learn") -> str:
    """Return the command with what was typed of it that makes a difference to the result, and names without folders."""
    context = click.get_current_context()
    words = [name]
    for each in context.command.params:
        typed = context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
        if not typed or each.name in WITHOUT_EFFECT:
            continue
        value = context.params[each.name or ""]
        if isinstance(each, click.Argument):
            words += [shlex.quote(file.name) for file in value]
        elif isinstance(value, bool):
            words.append(each.opts[0] if value or not each.secondary_opts else each.secondary_opts[0])
        else:
            words += [each.opts[0], shlex.quote(str(value))]
    return " ".join(words)
