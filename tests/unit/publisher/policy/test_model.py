"""The policy: what is allowed is read as it was meant, and every mistake is one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dp_bundle.base.errors import PolicyError
from dp_publish.policy.file import load_policy, policy_path
from dp_publish.policy.mistakes import SECTIONS, allowed_of
from dp_publish.policy.model import ColumnPolicy, EntityUnit, Policy

COVARIANCE = '[privacy]\nrelease = "covariance"\n'


SOUND = """
[dataset]
name = "wine"
title = "Wine"
license = "CC0-1.0"
[privacy]
unit = "cell"
mu = 1.5
[columns.alcohol]
bounds = [10, 15.5]
kind = "continuous"
unit = "% vol"
missing = "midpoint"
[columns."name of wine"]
drop = true
"""


def load(tmp_path: Path, text: str, **overrides: object) -> Policy:
    """Read a policy from a file of this text."""
    path = tmp_path / "data.policy.toml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path, "data", overrides)


def test_file_is_read_as_written(tmp_path: Path) -> None:
    """Every entry arrives where it belongs, and what is left out has its default."""
    policy = load(tmp_path, SOUND)

    assert (policy.dataset.name, policy.dataset.title, policy.dataset.contact) == ("wine", "Wine", "")
    assert (policy.privacy.unit, policy.privacy.mu, policy.privacy.epsilon) == ("cell", 1.5, None)
    assert policy.columns["alcohol"].bounds == (10.0, 15.5)
    assert policy.columns["alcohol"].missing == "midpoint"
    assert policy.columns["name of wine"].drop is True
    assert load(tmp_path, "[privacy]\nmu = 1").privacy.unit == "row"
    assert load(tmp_path, "[privacy]\nmu = 1").dataset.name == "data"


def test_options_override_the_file(tmp_path: Path) -> None:
    """A strength on the command line replaces the file's, whole; other entries stay."""
    assert load(tmp_path, SOUND, rho=0.5).privacy.model_dump(exclude_defaults=True) == {"unit": "cell", "rho": 0.5}
    assert load(tmp_path, SOUND, unit="row").privacy.mu == 1.5
    point = "[privacy]\nepsilon = 1.0\ndelta = 1e-6"
    assert load(tmp_path, point, mu=2.0).privacy.delta is None
    assert load(tmp_path, point, delta=1e-8).privacy.epsilon == 1.0
    assert load_policy(None, "data", {"mu": 2.0, "unit": None}).privacy.mu == 2.0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("dataset = 3\n[privacy]\nmu = 1", "as tables"),
        ("extra = 1\n[privacy]\nmu = 1", "extra"),
        ("[privacy]\nmu = inf", "privacy.mu"),
        ("[privacy]\nmu = true", "privacy.mu"),
        ("[privacy]\ndelta = 1e-6\nmu = 1", "give both"),
        ("[dataset]\nname = ''\n[privacy]\nmu = 1", "name"),
        (f"[dataset]\ntitle = '{'x' * 10_001}'\n[privacy]\nmu = 1", "title"),
        ("[privacy]\nmu = 1\n[columns.a]\nbound = [0, 1]", "columns.a.bound"),
        ("[privacy]\nmu = 1\n[columns.a]\nbounds = [-1.7e308, 1.7e308]", "bounds"),
        ("[privacy]\nmu = 1\n[columns.a]\nbounds = [false, true]", "bounds"),
        ('[privacy]\nmu = 1\n[columns.a]\nbounds = [0.5, 1]\nkind = "integer"', "integers"),
        ('[privacy]\nmu = 1\n[columns.a]\nbounds = [0, 1e16]\nkind = "integer"', "2\\^53"),
        (f"{COVARIANCE}mu = 1\n[columns.a]\nweight = 2", "weight, of 'a', means nothing"),
        (f"{COVARIANCE}mu = 1\nl2_radius = 1\n[columns.a]\ncenter = 2", "without l2_radius"),
        ("[privacy]\nmu = 1\nbudget_mu = 0", "budget_mu"),
        ("[privacy]\nmu = 1\nbudget_mu = { row = 0 }", "budget_mu"),
        ("[privacy]\nmu = 1\nbounds_share = 0", "bounds_share"),
        ("[privacy]\nmu = 1\nl2_radius = 1", "l2_radius is for a covariance"),
        ('[privacy]\nmu = 1\nunit = { entity = "e", max_rows = true }', "max_rows"),
        ('[privacy]\nmu = 1\nunit = { entity = "e", max_rows = 3, cap = 1 }', "cap"),
        ("[privacy]\nmu = 1\n[columns.a]\nweight = 1e10", "weight"),
        ("[privacy]\nmu = 1\ncolumns.a = 3\n", "columns"),
        (
            '[privacy]\nmu = 1\n[columns.a]\nkind = "category"\ncategories = ["x", "y"]\nmissing = "indicator"',
            "which has no middle",
        ),
        ("[columns.a]\nbounds = [0, 1]\ncenter = 0.5\n", "for a covariance release"),
        ('[privacy]\nmu = 1\n[columns.a]\ntransform = "asinh"', "is for release"),
        (f'{COVARIANCE}mu = 1\n[columns.a]\nkind = "boolean"\ntransform = "asinh"', "is for numbers"),
        (f"{COVARIANCE}mu = 1.0\n[columns.a]\nbounds = [-10, 10]\ncenter = 20.0", "center must be within"),
        (f"{COVARIANCE}mu = 1.0\n[columns.a]\nbounds = [-10, 10]\ncenter = 0.0\nscale = 21.0", "scale must be"),
        ('[privacy]\nmu = 1\n[columns.a]\nbounds = [0.5, 1]\nkind = "boolean"', "integers"),
    ],
)
def test_each_mistake_is_a_policy_error_with_one_sentence(wrong: str, sentence: str, tmp_path: Path) -> None:
    """The message says where the mistake is, fits on a line, and means exit code 2."""
    with pytest.raises(PolicyError, match=sentence) as caught:
        load(tmp_path, wrong)
    assert "\n" not in str(caught.value)
    assert not re.search("pydantic|Input|should|Extra|valid (number|integer|string)", str(caught.value))


@pytest.mark.parametrize("section", [section for section in SECTIONS if section])
def test_every_entry_but_a_text_says_what_it_may_be(section: str) -> None:
    """A mistake in any entry is answered with what would be right there, not with a library's own words."""
    for name, field in SECTIONS[section].model_fields.items():
        where = (*section.split("."), *(["c"] if section == "columns" else []), name)
        is_text = field.annotation is str and name not in ("name", "entity")
        assert (allowed_of(where) == allowed_of(("dataset", "title"))) == is_text


def test_unreadable_files_are_policy_errors(tmp_path: Path) -> None:
    """A missing file, a folder, and what is not UTF-8 are named."""
    (tmp_path / "latin").write_bytes(b"# \xff")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "latin"):
        with pytest.raises(PolicyError, match=path.name):
            load_policy(path, "data", {"mu": 1.0})


@pytest.mark.parametrize("text", ["", "[privacy]", '[dataset]\nname = "d"', '[privacy]\nunit = "row"'])
def test_without_a_strength_one_row_is_protected_at_mu_one(text: str, tmp_path: Path) -> None:
    """No policy, or one that leaves the strength out, means mu = 1 for a row, a tenth of rho for bounds, no budget."""
    for policy in (load(tmp_path, text), load_policy(None, "data", {"mu": None})):
        found = policy.privacy.model_dump(exclude_none=True)
        kind = {"release": "rows", "mechanism": "auto", "neighbours": "replace-one"}
        assert found == {**kind, "unit": "row", "mu": 1.0, "bounds_share": 0.1}
    assert load(tmp_path, text, unit="cell").privacy.model_dump(exclude_defaults=True) == {"unit": "cell", "mu": 1.0}


def test_entities_weights_and_budget_are_read(tmp_path: Path) -> None:
    """What goes beyond bounds and a strength arrives where it belongs, and an account names its entity."""
    text = """
    [privacy]
    unit = { entity = "customer", max_rows = 7 }
    rho = 0.5
    budget_mu = 3
    [columns.a]
    weight = 2
    """
    policy = load(tmp_path, text)
    assert policy.privacy.unit == EntityUnit(entity="customer", max_rows=7)
    assert (policy.privacy.unit_name, policy.privacy.account) == ("entity", "entity:customer")
    assert policy.privacy.budget_mu == 3.0
    assert policy.column("a").weight == 2.0
    assert policy.column("b") == ColumnPolicy()
    plain = load(tmp_path, text, unit="cell").privacy
    assert (plain.unit_name, plain.account) == ("cell", "cell")


def test_policy_is_expected_beside_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's last suffix is replaced, a folder's dots are kept, and "." or ".." has the policy of its own name."""
    (tmp_path / "a.b.parquet").write_bytes(b"")
    (tmp_path / "a.csv.gz").write_bytes(b"")
    (tmp_path / "folder.d").mkdir()
    assert policy_path(tmp_path / "a.b.parquet") == tmp_path / "a.b.policy.toml"
    assert policy_path(tmp_path / "a.csv.gz") == tmp_path / "a.policy.toml"
    assert policy_path(tmp_path / "folder.d") == tmp_path / "folder.d.policy.toml"
    inner = tmp_path / "table" / "part"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert policy_path(Path()) == policy_path(inner) == tmp_path / "table" / "part.policy.toml"
    assert policy_path(Path("..")) == tmp_path / "table.policy.toml"
    assert policy_path(Path("/")) == Path("/.policy.toml")


def test_covariance_releases_are_read(tmp_path: Path) -> None:
    """Epsilon alone is a strength, options replace entries, and asking for rows drops what rows have no use for."""
    text = f'{COVARIANCE}epsilon = 0.5\nmechanism = "laplace"\nneighbours = "add-remove"\nl2_radius = 2.0'
    privacy = load(tmp_path, text).privacy
    assert (privacy.release, privacy.mechanism, privacy.neighbours) == ("covariance", "laplace", "add-remove")
    assert (privacy.epsilon, privacy.delta, privacy.l2_radius) == (0.5, None, 2.0)
    assert load(tmp_path, text, release="rows", mu=1.0).privacy.neighbours == "replace-one"


def test_a_unit_in_place_of_an_entity_does_not_publish_the_entity(tmp_path: Path) -> None:
    """The column that names the file's entity, a person's number say, stays out under another unit from an option."""
    text = "[privacy]\nmu = 1\nunit = { entity = 'who', max_rows = 2 }\n[columns.age]\nbounds = [0, 120]\n"
    named = load(tmp_path, text + "[columns.who]\ndescription = 'a person'\n", unit="row")

    assert load(tmp_path, text, unit="cell").column("who").drop
    assert (named.column("who").drop, named.column("who").description) == (True, "a person")
    assert not load(tmp_path, text).column("who").drop
    assert not load(tmp_path, text, unit="row").column("age").drop
