"""One publisher at her desk: what she has in the form, what is saved, and the work that she began.

What takes a while is done by the command itself in a process of its own. So whatever the desk does is what the command
does: the same bytes, the same books, the same end after an interrupt.
"""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dp_bundle.base.errors import DpGraphError, PolicyError, SchemaError
from dp_bundle.base.quoting import quote_path
from dp_bundle.base.wording import FORM_ASKS
from dp_bundle.files.new_files import read_regular, write_whole
from dp_bundle.files.places import Place
from dp_publish.cli.desk.answer import Answer, Desk
from dp_publish.cli.desk.document import changed_policy, new_policy
from dp_publish.data.dialect import is_text_file
from dp_publish.data.table import open_table
from dp_publish.ledger.ledger import open_ledger
from dp_publish.policy.file import parse_policy

_BIGGEST_POLICY = 2**23  # bytes
COMMAND = (sys.executable, "-P", "-m", "dp_publish")  # -P: no module is taken from the folder of the data
_MOST_LINES = 400  # that are kept of what is told
AGAIN = "start dp-publish desk again for a new one"


@dataclass(frozen=True)
class Asked:
    """What the desk was started with: the table, the dataset's name, the policy's file, the key, the ledger."""

    data: Place
    name: str
    policy: Path
    key: str
    ledger: str | None
    header: str | None = None

    @property
    def bundle(self) -> Path:
        """Where a release goes."""
        return Path(f"{self.name}.bundle.tar")

    @property
    def files(self) -> tuple[Path, ...]:
        """The bundle, and what lies beside it."""
        return self.bundle, Path(f"{self.name}.bundle.tar.minisig"), Path(f"{self.name}.bundle.html")


class Session:
    """One publisher at her desk."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.saved = _read_policy(asked.policy)
        text = new_policy(asked.data.name, asked.name) if self.saved is None else self.saved
        dialect = parse_policy(text, str(asked.policy), asked.name).table  # what cannot be read is for an editor
        if asked.header is not None:
            text = changed_policy(text, (), {"table-header": asked.header})
            dialect = dialect.model_copy(update={"header": asked.header})
        try:
            open_table(asked.data, dialect)
        except SchemaError as error:
            if not (error.entry.startswith("table.") and is_text_file(asked.data)):  # which the form has a field for
                raise
        self.desk = Desk(asked.data, asked.name, text, open_ledger(asked.ledger))
        self.fields: dict[str, str] = {}
        self.work: Work | None = None
        self.shown: dict[str, Path] = {}
        self.failure = ""
        self.touched = self.began = time.monotonic()
        self.folder = tempfile.TemporaryDirectory(prefix="dpgraph-desk-")
        self.pool = ThreadPoolExecutor(1)
        self._opening = threading.Thread(target=self._open, daemon=True)
        self._opening.start()

    def _open(self) -> None:
        try:
            self.desk.opened  # noqa: B018  read once, and kept
        except DpGraphError as error:
            self.failure = str(error)
        except OSError as error:
            self.failure = error.strerror or str(error)

    @property
    def is_opening(self) -> bool:
        """Whether the table is still being read."""
        return self._opening.is_alive()

    @property
    def is_working(self) -> bool:
        """Whether something that was begun is still being done."""
        return self.work is not None and self.work.is_running

    def answer(self, fields: dict[str, str]) -> Answer:
        """Return what is said of the form, and keep what is in it for when the page is loaded again."""
        fields = dict(self.desk.fit(fields))
        answer = self.desk.answer(fields)
        self.fields = fields
        if self.is_working:
            return answer
        if there := [str(path) for path in self.asked.files if os.path.lexists(path)]:
            answer.object("", f"{' and '.join(there)} are a release that was made: move them to make another.")
        if _read_policy(self.asked.policy) != self.saved:
            said = f"{self.asked.policy} was changed since it was read, and is not written over: to keep what is in the"
            answer.object("", f"{said} form, copy the policy below; then close the desk, and open it again.")
        return answer

    def save(self, fields: dict[str, str]) -> str:
        """Write the policy's file, and return what was done.

        Raises
        ------
        PolicyError
            What is in the form is no policy, or the file is another one than was read.
        """
        answer = self.answer(fields)
        if not answer.is_read:
            raise PolicyError("nothing was saved, as something in the form cannot be read: see what stands in the way")
        path, text = self.asked.policy, answer.text
        if _read_policy(path) != self.saved:
            raise PolicyError(f"nothing was saved: {quote_path(path)} was changed by somebody else; {AGAIN}")
        if text == self.saved:
            return f"{path} is as it is in the form already"
        try:
            write_whole(Path(os.path.realpath(path)), text.encode(), replace=self.saved is not None)
        except OSError as error:
            raise PolicyError(f"nothing was saved: {quote_path(path)} cannot be written: {error.strerror}") from error
        self.saved = self.desk.text = text
        return f"wrote {path}"

    def start(self, what: str, fields: dict[str, str]) -> None:
        """Begin with work: a plan, a look at all rows, an audit, or the publication by the policy as it is saved."""
        if self.is_working:
            raise PolicyError("something is being done already: wait for it, or cancel it")
        self.work = Work(what, self._publishing(fields) if what == "publish" else self._trying(what, fields))

    def _publishing(self, fields: dict[str, str]) -> list[str]:
        """Return the command that publishes what was confirmed: by this text, whatever the file says by then."""
        answer = self.answer(fields)
        if not answer.can_publish or answer.refusals:
            raise PolicyError("nothing was published: see what stands in the way")
        if fields.get("confirmed") != self.key_of(answer):
            raise PolicyError("nothing was published, as the form says something else than was asked: read it again")
        self.save(fields)
        self.show("publish", self.asked.files[-1])
        insists = ["--anyway"] if fields.get("anyway") else []
        ledger = ["--ledger", self.asked.ledger] if self.asked.ledger else []
        options = ["--policy", str(self._copy(answer)), "--key", self.asked.key, *ledger, "--progress", "lines"]
        table = ["--new-account", "--confirmed", self.desk.opened.fingerprint]
        return ["publish", *options, *table, *insists, "--", str(self.asked.data)]

    def _copy(self, answer: Answer) -> Path:
        """Return a private file of the policy as it is in the form."""
        policy = Path(self.folder.name) / f"{secrets.token_hex(8)}.policy.toml"
        policy.write_text(answer.text, encoding="utf-8")
        return policy

    def _trying(self, what: str, fields: dict[str, str]) -> list[str]:
        """Return a command that spends nothing, by the policy as it is in the form."""
        answer = self.answer(fields)
        if not answer.is_read:
            raise PolicyError("something in the form cannot be read: see what stands in the way")
        policy = self._copy(answer)
        command = ["audit"] if what == "audit" else ["plan", *(["--look"] if what == "look" else [])]
        options = ["--policy", str(policy)]
        if what == "plan":
            report = policy.with_suffix(".html")
            options += ["--report", str(report), *(["--ledger", self.asked.ledger] if self.asked.ledger else [])]
            self.show("plan", report)
        return [*command, *options, "--", str(self.asked.data)]

    def key_of(self, answer: Answer) -> str:
        """Return a mark of what is promised and published, by which the question is known that she said yes to."""
        release = answer.outlook and answer.outlook.planned.release
        asked = answer.text, self.desk.opened.fingerprint, release, answer.promise, answer.account
        return hashlib.sha256(repr(asked).encode()).hexdigest()

    def show(self, name: str, path: Path) -> None:
        """Let a page that a command writes be seen under a name that nobody can guess."""
        self.shown[f"{name}-{secrets.token_urlsafe(24)}"] = path

    def page_of(self, what: str) -> str | None:
        """Return the address of the page that the last such work wrote, if it did."""
        name = next((name for name in reversed(self.shown) if name.startswith(f"{what}-")), None)
        return f"/shown/{name}" if name is not None and self.shown[name].exists() else None

    def close(self) -> None:
        """End what is being done, and forget all."""
        if self.work is not None and self.is_working:
            self.work.cancel()
            self.work.wait()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.folder.cleanup()


def _read_policy(path: Path) -> str | None:
    """Return the text of the policy; None if there is none yet."""
    try:
        return read_regular(path, _BIGGEST_POLICY).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"the policy {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


class Work:
    """A command that runs, or has ended.

    Attributes
    ----------
    what : str
        What it does, in a word that the page knows.
    told : list of str
        What it said besides its answer, in order.
    step : dict
        How far it is, as it said last.
    output : str
        Its answer, once it has ended.
    code : int or None
        Its exit code, once it has ended.
    """

    def __init__(self, what: str, arguments: Sequence[str]) -> None:
        self.what, self.began = what, time.monotonic()
        self.told: list[str] = []
        self.step: dict[str, Any] = {}
        self.output, self.cancelled = "", False
        self.code: int | None = None
        self.ended = 0.0
        self._process = subprocess.Popen(  # noqa: S603  ourselves
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONIOENCODING": "utf-8", FORM_ASKS: "yes"},
            start_new_session=True,  # so that an interrupt at the terminal comes by `cancel` alone, and once
        )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._wait)]
        for thread in self._threads:
            thread.start()

    @property
    def seconds(self) -> float:
        """How long it has been at it, or was."""
        return (self.ended or time.monotonic()) - self.began

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.code is None

    def cancel(self) -> None:
        """Interrupt it, once, as at a terminal; it undoes what it began, and says what it could not undo."""
        if self.is_running and not self.cancelled:
            self.cancelled = True
            self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended."""
        self._threads[1].join(seconds)

    def _listen(self) -> None:
        with _open(self._process.stderr) as lines:
            for line in lines:
                self._take(line.rstrip("\n"))

    def _take(self, line: str) -> None:
        """Keep a line: a document of how far it is, or a sentence."""
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict):
            self.step = found
        elif len(self.told) < _MOST_LINES:
            self.told.append(line)

    def _wait(self) -> None:
        with _open(self._process.stdout) as answer:
            self.output = answer.read()
        self._threads[0].join()
        self.ended = time.monotonic()
        self.code = self._process.wait()


def _open(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise TypeError("the process was started with pipes")
    return stream
