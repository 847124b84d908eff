"""Options of commands. Each says where it applies, and is refused, never ignored, where it does not.

`option` takes the place of click's own; its `applies` has the conditions, all of which must hold where the option is
typed. Defaults, and what comes from the environment, are refused nowhere.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])
_ANY: Any = object()


class Condition(ABC):
    """A condition that must hold where an option is typed."""

    @abstractmethod
    def refusal(self, name: str, value: Any, context: click.Context) -> str | None:
        """Return why an option of this name and value does not apply, as a sentence that begins with it, or None."""


@dataclass(frozen=True)
class With(Condition):
    """Another option has one of these values; without values, it has any, and is no flag that is off."""

    other: str
    values: tuple[str, ...] = ()

    def refusal(self, name: str, value: Any, context: click.Context) -> str | None:  # noqa: ARG002
        """Return the reason, which names the other option."""
        found, spelled = context.params[self.other], _spelled(self.other, context)
        if not self.values:
            return None if found else f"{name} goes with {spelled}, which is missing"
        if found in self.values:
            return None
        return f"{name} is for {spelled} {' or '.join(self.values)}, not {found}"


@dataclass(frozen=True)
class Without(Condition):
    """Another option is not given; `because` says why, and `value` which value of this one it is about."""

    other: str
    because: str = ""
    value: Any = _ANY

    def refusal(self, name: str, value: Any, context: click.Context) -> str | None:
        """Return the reason, which names the other option."""
        if not context.params[self.other] or self.value not in (_ANY, value):
            return None
        return f"{name} goes without {_spelled(self.other, context)}{self.because and f': {self.because}'}"


@dataclass(frozen=True)
class Where(Condition):
    """Something holds that only reading shows: of the policy, the table or the job, whose reader refuses the option."""

    holds: str

    def refusal(self, name: str, value: Any, context: click.Context) -> str | None:  # noqa: ARG002
        """Return None: it is too early to know."""
        return None


ALWAYS: tuple[Condition, ...] = ()


class AppliedOption(click.Option):
    """An option that says where it applies."""

    def __init__(self, *args: Any, applies: Sequence[Condition], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.applies = tuple(applies)

    def refusal(self, context: click.Context) -> str | None:
        """Return why the option, as it was typed, does not apply; None if it does or was not typed."""
        if self.name is None or context.get_parameter_source(self.name) is not ParameterSource.COMMANDLINE:
            return None
        value = context.params[self.name]
        name = self.secondary_opts[0] if self.secondary_opts and not value else self.opts[0]
        return next(filter(None, (each.refusal(name, value, context) for each in self.applies)), None)


def option(*names: str, applies: Sequence[Condition], **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option to a command, as `click.option` does.

    Parameters
    ----------
    *names : str
        As click has them.
    applies : sequence of Condition
        Where it applies: `ALWAYS`, or what must hold.
    **settings
        As click has them.
    """

    def add(command: F) -> F:
        checked = command if hasattr(command, "refuses_options") else _refusing(command)
        return click.option(*names, cls=AppliedOption, applies=applies, **settings)(checked)

    return add


def _refusing(command: F) -> F:
    """Return a command's function that first refuses options that do not apply."""

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        context = click.get_current_context()
        for each in context.command.params:
            if isinstance(each, AppliedOption) and (why := each.refusal(context)) is not None:
                raise click.UsageError(why, context)
        return command(*args, **given)

    run.refuses_options = True  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _spelled(name: str, context: click.Context) -> str:
    """Return how another parameter is typed."""
    return next(each.opts[0] for each in context.command.params if each.name == name)
