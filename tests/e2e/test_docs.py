"""What the pages say is what the commands do."""

import ast
import importlib.util
import inspect
import itertools
import pkgutil
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import dp_bundle
import dp_learn
import dp_publish
from dp_bundle.manifest.columns import Scores
from dp_learn.output import estimator_results, summary
from dp_learn.output.estimator_results import ESTIMATORS

ROOT = Path(__file__).parents[2]
PAGES = [page for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]) if "_build" not in page.parts]
MADE = ("explained/", "example/")  # judged with the built site


def load(script: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(script, ROOT / "docs" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_page_is_the_commands_own_help() -> None:
    """docs/commands.md and docs/man are what `make docs` would write."""
    module = load("make_commands")

    assert module.PAGE.read_text(encoding="utf-8") == module.page()
    assert {path.name: path.read_text(encoding="utf-8") for path in module.MANUAL.iterdir()} == module.manual()


@pytest.mark.parametrize("name", ["policy.md", "manifest.md", "errors.md", "results.md", "../audit.md"])
def test_reference_pages_are_what_the_code_says(name: str) -> None:
    """Tables of the policy, the manifest, the errors, the results and the audit are what `make docs` would write."""
    module = load("make_reference")

    assert (module.FOLDER / name).read_text(encoding="utf-8") == module.PAGES[name]()


@pytest.mark.parametrize("package", [dp_publish, dp_bundle, dp_learn], ids=lambda package: package.__name__)
def test_api_page_lists_the_public_names(package: ModuleType) -> None:
    """The page of the API names what a package offers, and nothing else."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    part = page.split(f".. currentmodule:: {package.__name__}\n")[1].split("```")[0]

    assert sorted(re.findall(r"^ +(\w+)$", part, re.MULTILINE)) == sorted(package.__all__)


def test_results_page_explains_every_entry_of_the_summary() -> None:
    """The page of dp-learn's files has a line for each entry of summary.json, whatever the estimator."""
    page = (ROOT / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    part = page.split("\n## ")[-1]
    nodes = [node for each in (summary, estimator_results) for node in ast.walk(ast.parse(inspect.getsource(each)))]
    keys = [key for node in nodes if isinstance(node, ast.Dict) for key in node.keys]
    keys += [node.slice for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    entries = {key.value for key in keys if isinstance(key, ast.Constant)} | {*Scores.model_fields}
    others = {*ESTIMATORS, "column", "coefficient"}  # names of estimators, and of columns of tables

    assert set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) == {n for n in entries - others if "." not in n}


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link in a page names a file that is there, but for what the site's build makes."""
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 100
    assert [link for link in links if not link[1].startswith(MADE) and not (link[0].parent / link[1]).exists()] == []


def test_walks_name_functions_that_there_are() -> None:
    """Every stop of the two walks is a function or a class that can be imported, and a walk has at most 12 stops."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = [re.findall(r"^\d+\. `([\w.]+)`", part, re.MULTILINE) for part in page.split("\n## ") if "walk" in part[:8]]

    for stop in itertools.chain(*walks):
        pkgutil.resolve_name(stop)
    assert [3 < len(walk) <= 12 for walk in walks] == [True, True]


def test_architecture_lists_the_rooms() -> None:
    """The page has a line for every folder of the packages, and for no other."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| `(dp_\w+)` \| \|\n\|---\|---\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    listed = {
        (package, room)
        for package, rows in tables
        for line in rows.splitlines()
        for room in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    folders = {(door.parent.parent.name, door.parent.name) for door in ROOT.glob("*/dp_*/*/__init__.py")}

    assert listed == folders


def test_changelog_has_the_version() -> None:
    """The newest version in the changelog is that of the distribution, and every kind of change has one list in it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## \[(\d[^]]*)\] - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)[0]
    kinds = re.findall(r"^### (\w+)$", changes.split("\n## [")[2], re.MULTILINE)

    assert newest == version
    assert len(kinds) == len(set(kinds))


def test_pages_state_the_version_alike() -> None:
    """The citation has the version, and the README says that anything may change as long as it is below 1.0.0."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert ("- Before version 1.0.0" in (ROOT / "README.md").read_text(encoding="utf-8")) == version.startswith("0.")
