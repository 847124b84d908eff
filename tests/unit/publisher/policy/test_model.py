"""The policy and its template: what is allowed is read as it was meant, and every mistake is one sentence."""

import re
import tomllib
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_bundle.base.errors import PolicyError, SchemaError
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table, open_table
from dp_publish.policy.columns import choose_columns, require_bounds, resolve
from dp_publish.policy.file import load_policy, policy_path
from dp_publish.policy.mistakes import SECTIONS, allowed_of
from dp_publish.policy.model import Policy
from dp_publish.policy.template import describe_undecided, policy_template

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


def test_options_override_the_file(tmp_path: Path) -> None:
    """A strength on the command line replaces the file's, whole; other entries stay, unless rows have none."""
    assert load(tmp_path, SOUND, rho=0.5).privacy.model_dump(exclude_defaults=True) == {"unit": "cell", "rho": 0.5}
    assert load(tmp_path, SOUND, unit="row").privacy.mu == 1.5
    point = "[privacy]\nepsilon = 1.0\ndelta = 1e-6"
    assert load(tmp_path, point, mu=2.0).privacy.delta is None
    assert load(tmp_path, point, delta=1e-8).privacy.epsilon == 1.0
    assert load_policy(None, "data", {"mu": 2.0, "unit": None}).privacy.mu == 2.0
    moments = f'{COVARIANCE}epsilon = 0.5\nmechanism = "laplace"\nneighbours = "add-remove"'
    assert load(tmp_path, moments, release="rows", mu=1.0).privacy.neighbours == "replace-one"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("dataset = 3\n[privacy]\nmu = 1", "as tables"),
        ("extra = 1\n[privacy]\nmu = 1", "extra"),
        ("[privacy]\nmu = inf", "privacy.mu"),
        ("[privacy]\nmu = true", "privacy.mu"),
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
        ("[privacy]\nmu = 1\nl2_radius = 1", "covariance release has l2_radius"),
        ('[privacy]\nmu = 1\nunit = { entity = "e", max_rows = true }', "max_rows"),
        ('[privacy]\nmu = 1\nunit = { entity = "e", max_rows = 3, cap = 1 }', "cap"),
        ("[privacy]\nmu = 1\n[columns.a]\nweight = 1e10", "weight"),
        ("[privacy]\nmu = 1\ncolumns.a = 3\n", "columns"),
        (
            '[privacy]\nmu = 1\n[columns.a]\nkind = "category"\ncategories = ["x", "y"]\nmissing = "indicator"',
            "which has no middle",
        ),
        ("[columns.a]\nbounds = [0, 1]\ncenter = 0.5\n", "for a covariance release"),
        (f"{COVARIANCE}mu = 1.0\n[columns.a]\nbounds = [-10, 10]\ncenter = 20.0", "center must be within"),
        (f"{COVARIANCE}mu = 1.0\n[columns.a]\nbounds = [-10, 10]\ncenter = 0.0\nscale = 21.0", "scale must be"),
        (
            f"{COVARIANCE}mu = 1.0\n[columns.a]\ncenter = 0.0\nscale = 1.7e308",
            "scale must be",
        ),  # its square is no number
        ('[privacy]\nmu = 1\n[columns.a]\nbounds = [0.5, 1]\nkind = "boolean"', "integers"),
        ('[table]\ndelimiter = "1"', "table.delimiter"),
        ('[table]\ndecimal = "x"', "table.decimal"),
        ('[table]\nheader = "second"', "table.header"),
        ('[table]\nencoding = "klingon"', "table.encoding"),
        ("[table]\nmissing_values = [-999]", "table.missing_values"),
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


@pytest.mark.parametrize("text", ["", "[privacy]", '[dataset]\nname = "d"', '[privacy]\nunit = "row"'])
def test_without_a_strength_one_row_is_protected_at_mu_one(text: str, tmp_path: Path) -> None:
    """No policy, or one that leaves the strength out, means mu = 1 for a row, a tenth of rho for bounds, no budget."""
    for policy in (load(tmp_path, text), load_policy(None, "data", {"mu": None})):
        found = policy.privacy.model_dump(exclude_none=True)
        kind = {"release": "rows", "mechanism": "auto", "neighbours": "replace-one"}
        assert found == {**kind, "unit": "row", "mu": 1.0, "bounds_share": 0.1}
    assert load(tmp_path, text, unit="cell").privacy.model_dump(exclude_defaults=True) == {"unit": "cell", "mu": 1.0}


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


def test_a_unit_in_place_of_an_entity_does_not_publish_the_entity(tmp_path: Path) -> None:
    """The column that names the file's entity, a person's number say, stays out under another unit from an option."""
    text = "[privacy]\nmu = 1\nunit = { entity = 'who', max_rows = 2 }\n[columns.age]\nbounds = [0, 120]\n"
    named = load(tmp_path, text + "[columns.who]\ndescription = 'a person'\n", unit="row")

    assert load(tmp_path, text, unit="cell").column("who").drop
    assert (named.column("who").drop, named.column("who").description) == (True, "a person")
    assert not load(tmp_path, text).column("who").drop
    assert not load(tmp_path, text, unit="row").column("age").drop


def fill_in(text: str) -> str:
    """Put bounds into a template as a person would."""
    return text.replace("# bounds = [low, high]", "bounds = [0, 10]")


def test_template_needs_only_bounds(tmp_path: Path) -> None:
    """Filled in, the template parses, names every column in order, and drops what is not numeric."""
    types = {"a": ColumnType.CONTINUOUS, "b c": ColumnType.INTEGER, "t": ColumnType.OTHER, "u": ColumnType.UNKNOWN}
    policy = load(tmp_path, fill_in(policy_template("data.csv", "wine", types)))

    assert policy.dataset.name == "wine"
    assert list(policy.columns) == list(types)
    assert [entry.kind for entry in policy.columns.values()] == ["continuous", "integer", None, "continuous"]
    assert [entry.drop for entry in policy.columns.values()] == [False, False, True, False]
    assert policy.columns["a"].bounds == (0.0, 10.0)
    assert load(tmp_path, policy_template("d", "d", types, booleans=["b c"])).column("b c").kind == "boolean"
    assert all(entry.bounds is None for entry in load(tmp_path, policy_template("d", "d", types)).columns.values())


def test_text_and_dates_need_a_list_of_levels_and_dates_as_bounds(tmp_path: Path) -> None:
    """Uncommented as it says, what a template has of text and of dates is a policy that publishes them."""
    types = {"sex": ColumnType.TEXT, "town": ColumnType.TEXT, "born": ColumnType.DATE, "seen": ColumnType.TIME}
    types |= {"at": ColumnType.TIME_OF_DAY, "stay": ColumnType.DURATION, "tags": ColumnType.NESTED}
    text = policy_template("data.parquet", "wine", types)
    assert [entry.drop for entry in load(tmp_path, text).columns.values()] == [True, True, *[False] * 4, True]
    assert describe_undecided(types) == [
        "left out: 'sex' (text), 'town' (text), 'tags' (lists or structures)",
        'to publish text, give it a kind ("category", "ordered" or "boolean") in the policy, and delete drop',
    ]

    said = text.replace("drop = true", "", 1)
    for entry in ("kind", "categories", "other", "missing", "bounds"):
        said = said.replace(f"# {entry} = ", f"{entry} = ")
    said = said.replace('["...", "..."]', '["f", "m"]').replace("[low, high]", "[0, 60]").replace("# spread", "#")
    policy = load(tmp_path, said)
    assert [entry.kind for entry in policy.columns.values()] == [
        "category",
        None,
        "date",
        "time",
        "time",
        "duration",
        None,
    ]
    assert (policy.columns["sex"].categories, policy.columns["sex"].other) == (("f", "m"), "other")
    assert policy.columns["born"].bounds == (18262.0, 21914.0)
    assert policy.columns["at"].bounds == (0.0, 86399.0)


def test_template_of_a_wide_table_is_short_and_covers_every_column(tmp_path: Path) -> None:
    """Two thousand columns need one section instead of 16,000 lines; filled in, every column has bounds."""
    names = [*(f"sensor_{index}" for index in range(1000)), *(f"V{index}" for index in range(980)), "patient_id"]
    names += ["age", *(f"{letter}{letter}" for letter in "abcdefghijklmnop"), "flag", "name of it"]
    types = dict.fromkeys(names, ColumnType.CONTINUOUS) | {"name of it": ColumnType.OTHER, "flag": ColumnType.INTEGER}
    text = policy_template("data.parquet", "wide", types, booleans=["flag"])
    assert len(text.splitlines()) < 80
    table = Table(types, lambda _names, _rows: iter(()), booleans=frozenset(["flag"]))
    policy = load(tmp_path, fill_in(text))
    assert list(policy.columns) == ["*", "patient_id"]
    kinds, left_out = choose_columns(table, resolve(table, policy)[1])
    assert [*left_out] == ["patient_id", "name of it"]
    require_bounds(resolve(table, policy)[1], kinds)
    assert len(kinds) == 1998


@pytest.mark.parametrize("header", [None, "none"])
def test_template_of_a_text_file_says_how_it_is_written(header: str | None, tmp_path: Path) -> None:
    """What was found is in the policy, which then decides; a header is looked for anew unless it was given."""
    (tmp_path / "a.csv").write_bytes("größe;b\n1;2\n".encode("cp1252"))
    dialect = Dialect.model_validate({"header": header})
    layout = open_table(tmp_path / "a.csv", dialect).layout
    found = load(tmp_path, policy_template("a.csv", "a", {}, layout, header)).table
    assert found == Dialect.model_validate({"delimiter": ";", "encoding": "cp1252", "header": header})
    assert load(tmp_path, '[table]\nheader = "none"', header="first").table.header == "first"
    assert load(tmp_path, "", header=header, mu=1.0).table.header == header


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=4, unique=True))
def test_template_is_toml_for_any_column_names(names: list[str]) -> None:
    """Quotes, dots, line breaks and control characters in a column's name do not break the file."""
    text = policy_template("data\n[privacy]", names[0], dict.fromkeys(names, ColumnType.CONTINUOUS))
    document = tomllib.loads(text)
    assert list(document["columns"]) == names
    assert document["dataset"]["name"] == names[0]
    assert set(document) == {"dataset", "privacy", "columns"}


def test_template_never_reads_values(tmp_path: Path, table: pd.DataFrame) -> None:
    """A Parquet file whose every data byte is wiped out gives the same template, though it cannot be read."""
    path = tmp_path / "people.parquet"
    table.to_parquet(path)
    template = policy_template(path.name, "people", open_table(path).types)
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:footer] = bytes(footer - 4)
    path.write_bytes(bytes(content))

    assert policy_template(path.name, "people", open_table(path).types) == template
    assert pq.read_metadata(path).num_rows == 400
    with pytest.raises(SchemaError):
        list(open_table(path).read({"height": "continuous"}, 100))
