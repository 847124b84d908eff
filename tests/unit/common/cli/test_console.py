"""What the three commands share: answers on stdout, everything else on stderr, and one sentence for an error."""

import json
import subprocess
import sys

import click
import pytest

from dp_bundle.base.errors import BundleFormatError, DpGraphError, EstimationError, ParameterError
from dp_bundle.cli.console import answer, json_option, quiet_option, run, tell

Raised = BaseException | None


def leave_with(error: Raised, *words: str) -> object:
    """Run a command that ends like this and return its exit code."""

    @click.command()
    def command() -> None:
        if error is not None:
            raise error

    with pytest.raises(SystemExit) as leaving:
        run(command, list(words))
    return leaving.value.code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (DpGraphError("a sentence"), 1),
        (ParameterError("mu", "positive", -1), 2),
        (BundleFormatError("a sentence"), 3),
        (EstimationError("a sentence"), 4),
        (click.UsageError("a sentence"), 2),
        (click.Abort(), 1),
        (KeyboardInterrupt(), 1),
        (RuntimeError("a sentence"), 1),
    ],
)
def test_every_end_has_its_exit_code_and_no_traceback(
    error: Raised, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors leave with their code and say one line beginning with error, on stderr alone."""
    assert leave_with(error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    if isinstance(error, DpGraphError):
        assert err == f"error: {error}\n"
    else:
        assert (err == "") == (error is None)


def test_our_own_faults_show_their_trace_to_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With DPGRAPH_DEBUG an unforeseen error comes through as it is."""
    monkeypatch.setenv("DPGRAPH_DEBUG", "1")

    @click.command()
    def command() -> None:
        raise RuntimeError("fault")

    with pytest.raises(RuntimeError, match="fault"):
        run(command, [])


@pytest.mark.parametrize(
    ("words", "out"),
    [([], "text\n"), (["--quiet"], ""), (["--json"], '{\n "é": 1\n}\n'), (["--json", "--quiet"], '{\n "é": 1\n}\n')],
)
def test_answers_go_to_people_machines_or_nobody(
    words: list[str], out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text by default, JSON if asked for, nothing if quiet; remarks go to stderr unless quiet."""

    @click.command()
    @json_option
    @quiet_option
    def command(as_json: bool, quiet: bool) -> None:
        tell("by the way", quiet=quiet)
        answer("text", {"é": 1}, as_json=as_json, quiet=quiet)

    with pytest.raises(SystemExit) as leaving:
        run(command, words)
    captured = capsys.readouterr()
    assert leaving.value.code == 0
    assert captured.out == out
    assert captured.err == ("" if "--quiet" in words else "by the way\n")
    if "--json" in words:
        assert json.loads(captured.out) == {"é": 1}


def test_no_warning_of_numpy_reaches_a_person() -> None:
    """A number that is none is looked at where it matters, and says nothing by itself."""
    called = "click.Command('a', callback=lambda: print(numpy.log(numpy.array([-1.0])).sum()))"
    code = f"import click, numpy; from dp_bundle.cli.console import run; run({called})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("nan\n", "")
