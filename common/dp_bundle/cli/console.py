"""Error messages, answers and options that the three commands share.

An option says where it applies, and is refused, never ignored, where it does not. `option` takes the place of click's
own; its `applies` has the conditions, all of which must hold where the option is typed. Defaults, and what comes from
the environment, are refused nowhere.

The step that a command is at, on the last line of a terminal, with its time once that is two seconds.

Whatever else is printed takes the place of the line, which is drawn again below. On anything but a terminal nothing is
shown.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import click
from click.core import ParameterSource

from dp_bundle.base import launch
from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.machine import LIMIT, parse_size
from dp_bundle.base.quoting import escape, quote_path
from dp_bundle.files.places import RemotePath, is_uri, located

if TYPE_CHECKING:
    from dp_bundle.bundle.opened import Bundle


_TICK, _SLOW = 0.5, 2.0  # seconds: between two looks at the clock, and after which the time is shown
_START_OF_LINE = "\r\033[K"


@dataclass
class _Step:
    """What is being done, since when, and whether it is over; `is_drawn` where a terminal shows it."""

    what: str
    began: float = field(default_factory=time.monotonic)
    over: threading.Event = field(default_factory=threading.Event)
    is_drawn: bool = False


_lock = threading.RLock()
_current: list[_Step] = []  # the one step, or none


def step(what: str, *, quiet: bool = False) -> None:
    """Show that this is being done from now on, in the place of the step before, which an empty text ends."""
    if quiet or not sys.stderr.isatty():
        return
    with _lock:
        clear_line()
        for before in _current:
            before.over.set()
        _current[:] = [_Step(what)] if what else []
        for begun in _current:
            threading.Thread(target=_keep_drawing, args=(begun,), daemon=True).start()


def clear_line() -> None:
    """Take the step off the terminal, so that something else can be printed there."""
    with _lock:
        if _current and _current[0].is_drawn:
            _write(_START_OF_LINE)
            _current[0].is_drawn = False


def announce_compiling(how_long: str, kept: bool, *, quiet: bool = False) -> None:
    """Say on a terminal why this run takes longer than the next; or, anywhere, that the next will as well.

    Parameters
    ----------
    how_long : str
        Of computing, such as "a few seconds".
    kept : bool
        Whether later runs find what is compiled.
    quiet : bool
        Whether to say neither.
    """
    if quiet or (kept and not sys.stderr.isatty()):
        return
    said = f"compiling for this machine, {how_long} of computing: what is compiled is kept for later runs"
    if not kept:
        said = f"note: compiled code cannot be kept here, so that every run takes {how_long} of computing more: set "
        said += "NUMBA_CACHE_DIR to a folder that you can write to"
    with _lock:
        clear_line()
        _write(f"{said}\n")


def _keep_drawing(begun: _Step) -> None:
    """Draw a step again and again, until it is over."""
    while not begun.over.wait(_TICK):
        with _lock:
            if begun.over.is_set():
                return
            seconds = time.monotonic() - begun.began
            took = f" {seconds:.0f} s" if seconds >= _SLOW else ""
            _write(f"{_START_OF_LINE}{begun.what} ...{took}")
            begun.is_drawn = True


def _write(text: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(text, err=True, nl=False)


F = TypeVar("F", bound=Callable[..., Any])
_ANY: Any = object()


class Condition:
    """A condition that must hold where an option is typed."""

    def refusal(self, name: str, value: Any, context: click.Context) -> str | None:  # noqa: ARG002
        """Return why an option of this name and value does not apply, as a sentence that begins with it, or None.

        By default it is too early to know.
        """
        return None


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
    """Something holds that only reading shows: of the policy or the table, whose reader refuses the option."""

    holds: str


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


version_option = click.version_option(package_name="dpgraph", prog_name="dpgraph")


class DataPath(click.Path):
    """The path of a table, or its URI."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, or the URI as a `RemotePath`."""
        found = located(value) if is_uri(value) else value
        return found if isinstance(found, RemotePath) else super().convert(found, param, ctx)


class BundlePath(DataPath):
    """The path of a bundle that exists, a tar or the folder that it was unpacked to, or its URI."""

    def __init__(self, *, remote: bool = True, **settings: Any) -> None:
        super().__init__(exists=True, **settings)
        self.name = "file"
        self.remote = remote

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, or the URI as a `RemotePath`."""
        found = super().convert(value, param, ctx)
        if isinstance(found, RemotePath) and not self.remote:
            self.fail(f"{found} is not on this machine: dp-bundle unpack it first, and give the folder", param, ctx)
        return found


class NewPath(click.Path):
    """The path of what a command writes.

    No name, a dash, which means stdout to other tools, and a file whose name ends in a slash are refused.

    Parameters
    ----------
    folder : bool
        Whether it is a folder.
    remote : bool
        Whether it may be a URI, which becomes a `RemotePath`.
    either : bool
        Whether a slash at its end makes a folder of it; such a path stays text.
    """

    def __init__(self, *, folder: bool = False, remote: bool = False, either: bool = False) -> None:
        super().__init__(path_type=Path)
        self.folder, self.remote, self.either = folder, remote, either

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path."""
        if not value:
            self.fail("a name is missing", param, ctx)
        if value == "-":
            self.fail("this is never written to stdout: give a name (./- if it is to be called so)", param, ctx)
        if is_uri(value):
            found = located(value)
            if isinstance(found, RemotePath):
                return found if self.remote else self.fail(f"{found} must be a path on this machine", param, ctx)
            value = value if self.either and os.fspath(value).endswith("/") else found
        if self.either and os.fspath(value).endswith("/"):
            return value
        if not self.folder and os.fspath(value).endswith(tuple(filter(None, ("/", os.sep, os.altsep)))):
            self.fail(f"{quote_path(value)} names a folder: add the name of a file", param, ctx)
        return super().convert(value, param, ctx)


def _memory_size(text: str) -> int:
    """Return the bytes of a size of memory."""
    try:
        return parse_size(text)
    except ParameterError as error:
        raise click.BadParameter(f"{text!r} is not {error.allowed}") from error


def _limit_memory(context: click.Context, _: click.Parameter, limit: int | None) -> int | None:
    """Let the limit hold for the command from its first file on."""
    context.call_on_close(functools.partial(LIMIT.reset, LIMIT.set(limit)))
    return limit


memory_option = option(
    "--max-memory",
    applies=ALWAYS,
    type=_memory_size,
    callback=_limit_memory,
    metavar="SIZE",
    help="Refuse, before it begins, work that may need more memory than this, such as 4GB; by default than this "
    "machine can give.",
)
json_option = option("--json", "as_json", applies=ALWAYS, is_flag=True, help="Print one JSON document instead of text.")
quiet_option = option("--quiet", applies=ALWAYS, is_flag=True, help="Print nothing but errors.")


def answer_options(command: F) -> F:
    """Add `--json` and `--quiet`."""
    return json_option(quiet_option(command))


def reader_options(command: F) -> F:
    """Add `--allow-older` and `--any-signer`, as of `opened`."""
    older = option("--allow-older", applies=ALWAYS, is_flag=True, help="Accept a release older than one already seen.")
    said = "Accept any signer; every byte must be as it was signed."
    return older(option("--any-signer", applies=ALWAYS, is_flag=True, help=said)(command))


def opened(
    file: Path | RemotePath, *, any_signer: bool = True, allow_older: bool = False, anew: bool = False
) -> Bundle:
    """Return a verified bundle, open for reading; `any_signer` for commands that may read any."""
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    step("verifying", quiet=click.get_current_context().params.get("quiet", False))
    try:
        return open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older, anew=anew)
    finally:
        step("")


def engine_options(does: str) -> Callable[[F], F]:
    """Return a decorator that adds `--engine` and `--scheduler`; `does` completes a sentence: "adds noise to rows"."""
    engine = option(
        "--engine",
        applies=ALWAYS,
        type=click.Choice(["threads", "dask"]),
        default="threads",
        show_default=True,
        help=f"What {does}: this process, or workers of Dask, each a process.",
    )
    scheduler = option(
        "--scheduler",
        applies=[With("engine", ("dask",))],
        help="The address of Dask's scheduler (tls://HOST:PORT); workers start here by default.",
    )
    return lambda command: engine(scheduler(command))


def answer(text: str, document: Any = None, *, as_json: bool = False, quiet: bool = False) -> None:
    """Print a result on stdout, as text for a person or as JSON for a machine, with control characters escaped."""
    if as_json:
        _print(_printable_json(json.dumps(document, indent=1, ensure_ascii=not _writes_unicode(sys.stdout))))
    elif not quiet:
        _print(_printable(text))


@contextlib.contextmanager
def already(done: str) -> Iterator[None]:
    """Report what is already done if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        interruption.add_note(done)
        raise


def _print(text: str) -> None:
    step("")
    try:
        with already("the command has done its work, but its output was cut short"):
            click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DpGraphError(
            f"the command has done its work, but its output cannot be written to stdout: {error.strerror}"
        ) from error


def tell(message: str, *, quiet: bool = False) -> None:
    """Print something that is not the result on stderr; the work goes on if stderr is closed."""
    if not quiet:
        clear_line()
        with contextlib.suppress(OSError):
            click.echo(_printable(message), err=True)


@contextlib.contextmanager
def heard_by(handler: logging.Handler, level: int | None = None) -> Iterator[None]:
    """Let a handler hear what our packages log in a block, from a level on that is theirs by default."""
    loggers = [logging.getLogger(name) for name in ("dp_publish", "dp_bundle")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logger.level if level is None else level)
    try:
        yield
    finally:
        for logger, before in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(before)


@contextlib.contextmanager
def warnings_told(*, quiet: bool = False) -> Iterator[None]:
    """Tell the user of each warning that is logged in a block."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: tell(f"note: {record.getMessage()}", quiet=quiet)  # type: ignore[method-assign]
    with heard_by(handler):
        yield


def note(sentences: Iterable[str], *, quiet: bool = False) -> None:
    """Print notes on stderr, one a line."""
    for sentence in sentences:
        tell(f"note: {sentence}", quiet=quiet)


def run(command: click.Command, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code; an error becomes one sentence on stderr."""
    try:
        launch.begin()
        _escape_unprintable()
        if arguments is None and not sys.warnoptions:
            warnings.simplefilter("ignore", RuntimeWarning)  # of numpy, whose numbers are looked at where it matters
        code = command.main(arguments, standalone_mode=False)
    except (KeyboardInterrupt, click.Abort) as interruption:
        _leave_interrupted(interruption)
    except Exception as error:
        if launch.was_interrupted() and not isinstance(error, DpGraphError):
            _leave_interrupted(error)
        _leave_after(error)
    sys.exit(code if isinstance(code, int) else 0)


def _escape_unprintable() -> None:
    """Have a letter that a stream's encoding lacks written as its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not _writes_unicode(stream):
            stream.reconfigure(errors="backslashreplace")


def _writes_unicode(stream: TextIO) -> bool:
    """Return True if a stream has every letter, as it also has where click takes ASCII for a mistake."""
    return (stream.encoding or "ascii").lower().replace("-", "").startswith(("utf", "ascii", "us"))


def _leave_interrupted(error: BaseException) -> NoReturn:
    """Exit with what is known to be done, after an interrupt or the end of input at a prompt."""
    cause = error.__cause__ or error
    if isinstance(cause, EOFError) or (isinstance(cause, click.Abort) and not launch.was_interrupted()):
        _leave("nothing was typed in, and nothing was completed", 1)
    _leave(": ".join(["interrupted", *_notes(cause)]), 1)


def _leave_after(error: Exception) -> NoReturn:
    if isinstance(error, click.exceptions.Exit):
        sys.exit(error.exit_code)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        with contextlib.suppress(OSError):
            error.show()
        sys.exit(2)
    if isinstance(error, click.ClickException):
        _leave(_describe_misuse(error), 2)
    if isinstance(error, DpGraphError):
        _leave("\n".join([str(error), *_notes(error)]), error.exit_code)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    if isinstance(error, OSError):
        _leave(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    if os.environ.get("DPGRAPH_DEBUG"):  # a fault of ours: a sentence for the user, the trace for whoever asks
        raise error
    _leave(f"dpgraph has a fault ({type(error).__name__}: {error}): set DPGRAPH_DEBUG=1 for details and report it", 1)


def _describe_misuse(error: click.ClickException) -> str:
    """Return what is wrong with the arguments of a command, and the --help to read."""
    said = " ".join(error.format_message().removesuffix(".").split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return said if context is None else f"{said}; see {context.command_path} --help"


def _notes(error: BaseException | None) -> list[str]:
    return list(getattr(error, "__notes__", []))


def _leave(message: str, code: int) -> NoReturn:
    step("")
    with contextlib.suppress(OSError):
        click.echo(f"error: {_printable(message)}", err=True)
    sys.exit(code)


def _printable(text: str) -> str:
    """Return lines of text without a character that a terminal would obey."""
    return "\n".join(escape(line) for line in text.split("\n"))


def _printable_json(text: str) -> str:
    """Return the same JSON document with such characters, which only its strings can hold, escaped."""
    return re.sub(r"[^\n -~]", lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)
