"""Every option of every command says where it applies: there it is used, and elsewhere it is refused."""

import ast
import dataclasses
import inspect
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import COMMANDS, Run

from dp_bundle.cli.console import AppliedOption, Where, With, Without, option
from dp_learn.cli.main import WITHOUT_EFFECT
from dp_learn.pipeline.settings import Settings
from dp_publish import Policy, publish

OF_CLICK = {"help", "version"}


@dataclass(frozen=True)
class Declared:
    """One option of one command."""

    words: tuple[str, ...]
    command: click.Command
    option: click.Option

    def __str__(self) -> str:
        return " ".join((*self.words, self.option.opts[0]))


def declared() -> list[Declared]:
    """Return all options of all commands."""

    def walk(words: tuple[str, ...], command: click.Command) -> Iterator[Declared]:
        yield from (Declared(words, command, each) for each in command.params if isinstance(each, click.Option))
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                yield from walk((*words, name), inner)

    found = [each for name, command in COMMANDS.items() for each in walk((name,), command)]
    return [each for each in found if each.option.name not in OF_CLICK]


ALL = declared()
CONDITIONS = [(each, condition) for each in ALL for condition in getattr(each.option, "applies", ())]


def test_every_option_says_where_it_applies() -> None:
    """An option without a word about it, or about an option that its command does not have, fails here."""
    for each in ALL:
        assert isinstance(each.option, AppliedOption), f"declare {each} with dp_bundle.cli.console.option"
        others = {one.other for one in each.option.applies if isinstance(one, (With, Without))}
        assert others <= {param.name for param in each.command.params}, str(each)


def test_an_option_cannot_be_declared_without_saying_it() -> None:
    """`applies` has no default."""
    with pytest.raises(TypeError, match="applies"):
        option("--new")  # type: ignore[call-arg]


def test_every_option_is_read_by_its_command() -> None:
    """The function of the command reads the value, or hands it on with all that it does not name."""
    for each in ALL:
        function = inspect.unwrap(each.command.callback)  # type: ignore[arg-type]
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        names = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
        rest = tree.args.kwarg.arg if tree.args.kwarg is not None else None
        assert (each.option.name in read) if each.option.name in names else (rest in read), str(each)


# dp-learn: all options with all estimators, as they are declared

ESTIMATORS = next(each.option.type.choices for each in ALL if str(each) == "dp-learn --estimator")  # type: ignore[attr-defined]
TYPED: dict[str, list[str]] = {  # an option of dp-learn that changes what the command below finds, writes or says
    "target": ["--target", "label"],
    "alpha": ["--alpha", "0.31"],
    "select": ["--select", "mse"],
    "fdr": ["--fdr", "0.2"],
    "at_least": ["--at-least", "0.4"],
    "stability": ["--stability", "100"],
    "weights": ["--weights", "noise"],
    "repair": ["--repair", "clip"],
    "refit": ["--no-refit"],
    "solver": ["--solver", "admm"],
    "scale": ["--scale", "covariance"],
    "penalize_diagonal": ["--no-penalize-diagonal"],
    "report": ["--report"],
    "out": ["--out", "elsewhere"],
    "max_memory": ["--max-memory", "1MB"],
    "as_json": ["--json"],
    "quiet": ["--quiet"],
}
ELSEWHERE = {"estimator", "allow_older", "engine", "scheduler"}  # tested below, in test_commands.py or in test_dask.py
PREDICTING = {"regression", "lda"}


def of_learn() -> dict[str, click.Option]:
    """Return the options of dp-learn by name."""
    return {each.option.name or "": each.option for each in ALL if each.words == ("dp-learn",)}


def applies_to(each: click.Option, estimator: str) -> bool:
    """Return whether an option applies to an estimator, as it is declared."""
    assert isinstance(each, AppliedOption)
    named = [one.values for one in each.applies if isinstance(one, With) and one.other == "estimator"]
    return all(estimator in values for values in named)


@pytest.fixture
def chain(tmp_path: Path, key: Ed25519PrivateKey) -> str:
    """Publish a table of which the debiased covariance is indefinite, with a column of two classes."""
    rng = np.random.default_rng(3)
    first = rng.normal(size=600)
    copies = {f"b{number}": first + 0.01 * rng.normal(size=600) for number in range(5)}  # which the noise tells apart
    table = pd.DataFrame({"a": first, **copies, "c": 0.6 * first + rng.normal(size=600)})
    table["d"] = 0.5 * table["c"] + rng.normal(size=600)
    table["label"] = (table["c"] + rng.normal(size=600) > 0).astype(int)
    columns = {name: {"bounds": [0, 1] if name == "label" else [-4, 4]} for name in table}
    described = {"dataset": {"name": "chain"}, "privacy": {"mu": 14.0}, "columns": columns}
    publish(table, Policy.model_validate(described), out=tmp_path / "chain.bundle.tar", key=key)
    return "chain.bundle.tar"


def test_every_option_of_learning_is_listed() -> None:
    """A new option of dp-learn gets a value here that makes a difference."""
    assert set(of_learn()) == {*TYPED, *ELSEWHERE}


def test_an_option_is_of_the_settings_or_known_not_to_be() -> None:
    """What is no setting of what is found is left out of citations, or is one of the few that choose what is asked."""
    settings = {field.name for field in dataclasses.fields(Settings)}
    asked = {"estimator", "target", "fdr", "at_least", "stability", "allow_older"}
    assert set(of_learn()) - settings == asked | WITHOUT_EFFECT


def test_what_does_not_apply_to_an_estimator_is_refused(chain: str, command: Run) -> None:
    """Each option that is not for an estimator is refused with it in one sentence, which names both."""
    for estimator in ESTIMATORS:
        for name, each in of_learn().items():
            if name in TYPED and not applies_to(each, estimator):
                refused = command("dp-learn", chain, "--estimator", estimator, *TYPED[name])
                assert refused.returncode == 2, (estimator, name)
                assert refused.stderr.startswith(f"error: {TYPED[name][0]} is for --estimator "), refused.stderr
                assert f"not {estimator};" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_applies_to_an_estimator_makes_a_difference(
    estimator: str, chain: str, command: Run, tmp_path: Path
) -> None:
    """Each option that is for an estimator changes what is found, written or said."""
    base = ["--estimator", estimator, *(["--target", "label"] if estimator in PREDICTING else [])]

    def outcome(*words: str) -> object:
        done = command("dp-learn", chain, *base, *words)
        written = {}
        for folder in ("chain.graph", "elsewhere"):
            for path in sorted((tmp_path / folder).glob("[!.]*")):
                written[f"{folder}/{path.name}"] = path.read_bytes()
                path.unlink()
        return done.returncode, done.stdout, done.stderr, written

    usual = outcome()
    assert usual[0] == 0, usual  # type: ignore[index]
    assert usual == outcome()
    for name, each in of_learn().items():
        if name not in TYPED or not applies_to(each, estimator):
            continue
        words = ["--target", "d"] if name == "target" and estimator == "regression" else TYPED[name]
        if name == "target" and estimator == "lda":
            continue  # the command above needs it: without, it is refused
        assert outcome(*words) != usual, name


# options that go with others, or without them

REFUSED = {  # by every condition of an option on another one: words that break it
    "dp-learn --scheduler, engine": ["chain.bundle.tar", "--scheduler", "tls://127.0.0.1:1"],
    "dp-learn describe --scheduler, engine": ["chain.bundle.tar", "--scheduler", "tls://127.0.0.1:1"],
    **{
        f"dp-learn {name} --scheduler, engine": [*["chain.bundle.tar"] * 2, "--scheduler", "tls://127.0.0.1:1"]
        for name in ("compare", "joint")
    },
    "dp-learn --select, alpha": ["chain.bundle.tar", "--select", "cv", "--alpha", "0.1"],
    "dp-learn --refit, fdr": ["chain.bundle.tar", "--no-refit", "--fdr", "0.05"],
    "dp-publish publish --scheduler, engine": ["table.parquet", "--scheduler", "tls://127.0.0.1:1"],
    "dp-publish publish --staging, engine": ["table.parquet", "--staging", "stage"],
    **{
        f"dp-publish {name} --max-rows, unit": ["table.parquet", "--max-rows", "2"]
        for name in ("publish", "plan", "audit")
    },
    "dp-publish publish --new-account, account": ["table.parquet", "--new-account", "--account", "a"],
    "dp-publish plan --ledger, report": ["table.parquet", "--ledger", "office/"],
    "dp-bundle trust --name, remove": ["publisher.pub", "--name", "Office", "--remove"],
    "dp-bundle trust --until, remove": ["publisher.pub", "--until", "2099-01-01", "--remove"],
}


def test_every_condition_on_another_option_is_tested() -> None:
    """A new condition gets words that break it; those on estimators are tested above."""
    found = {
        f"{each}, {condition.other}"
        for each, condition in CONDITIONS
        if isinstance(condition, (With, Without)) and condition.other != "estimator"
    }
    assert found == set(REFUSED)


@pytest.mark.parametrize("which", REFUSED)
def test_what_goes_with_another_option_is_refused_without(which: str, chain: str, command: Run, tmp_path: Path) -> None:
    """One sentence names both options, and nothing is read, written or decided."""
    pd.DataFrame({"a": [0.5, 1.5]}).to_parquet(tmp_path / "table.parquet")
    before = sorted(path.name for path in tmp_path.iterdir())
    name, other = which.split(", ")
    *words, flag = name.split()
    refused = command(words[0], *words[1:], *REFUSED[which])

    assert refused.returncode == 2
    assert "no-refit" in refused.stderr if flag == "--refit" else refused.stderr.startswith(f"error: {flag} ")
    assert f"--{other}" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# options of which only reading shows whether they apply

_COVARIANCE = "only a covariance release has"
_TEXT = "is not a text file"
UNSUITABLE = {  # by option: words, and what is said
    "--header": (["table.parquet", "--header", "none"], _TEXT),
    "--delimiter": (["table.parquet", "--delimiter", ";"], _TEXT),
    "--decimal": (["table.parquet", "--decimal", ","], _TEXT),
    "--encoding": (["table.parquet", "--encoding", "utf-16"], _TEXT),
    "--mechanism": (["table.parquet", "--mechanism", "gaussian"], _COVARIANCE),
    "--neighbours": (["table.parquet", "--neighbours", "add-remove"], _COVARIANCE),
    "--delta": (["table.parquet", "--mu", "1", "--delta", "1e-6"], "epsilon and delta go together"),
    "--sigma": (["table.parquet", "--release", "covariance", "--sigma", "1"], "not sigma"),
    "--name": (["statement.json", "--name", "Office"], "a statement has its own"),
    "--until": (["statement.json", "--until", "2099-01-01"], "a statement has its own"),
    "--remove": (["statement.json", "--remove"], "a statement has its own"),
    "--solver": (["mixed.bundle.tar", "--solver", "cd"], "for a table with categories"),
    "--scale": (["mixed.bundle.tar", "--scale", "covariance"], "for a table with categories"),
}
JUDGED_LATER = [each for each, condition in CONDITIONS if isinstance(condition, Where)]


@pytest.mark.parametrize("each", JUDGED_LATER, ids=str)
def test_what_the_table_or_the_policy_has_no_use_for_is_refused(
    each: Declared, tmp_path: Path, key: Ed25519PrivateKey, command: Run
) -> None:
    """Whoever reads the policy, the table or the bundle refuses it in one sentence."""
    words, said = UNSUITABLE[each.option.opts[0]]
    table = pd.DataFrame({"a": np.linspace(0.0, 1.0, 90), "town": ["x", "y", "z"] * 30})
    if "table.parquet" in words:
        table[["a"]].to_parquet(tmp_path / "table.parquet")
    elif "statement.json" in words:
        (tmp_path / "statement.json").write_text(json.dumps({"payload": ""}))
    else:
        columns = {"a": {"bounds": [0, 1]}, "town": {"kind": "category", "categories": ["x", "y", "z"]}}
        described = {"dataset": {"name": "mixed"}, "privacy": {"mu": 30.0}, "columns": columns}
        publish(table, Policy.model_validate(described), out=tmp_path / "mixed.bundle.tar", key=key)

    refused = command(*each.words, *words)
    assert refused.returncode == (1 if said == _TEXT else 2), refused.stderr
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


# the options of a covariance release, with all mechanisms
