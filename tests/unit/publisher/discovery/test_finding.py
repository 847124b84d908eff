"""From what was told of columns to a policy, and from a table to a bundle, with nothing declared."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyreadstat
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_bundle.base.errors import DataError, PolicyError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Policy, Receipt, publish
from dp_publish.cli.messages.release import summarize_receipt
from dp_publish.covariance.mechanisms.two_round import NoisySums
from dp_publish.covariance.two_rounds.steps import Choice, NoisyCounts, NoisyLengths
from dp_publish.data.table import open_table
from dp_publish.discovery.finding import AMBIGUOUS, Steps, Told, decide, discover
from dp_publish.discovery.levels import NoisyLevels
from dp_publish.discovery.looks import LOOKS, Look
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.columns import resolve
from dp_publish.policy.open_columns import find_candidates, is_open
from dp_publish.sampling.keystream import insecure_keystream

KEY = Ed25519PrivateKey.generate()


def open_policy(**privacy: object) -> Policy:
    """Return a policy that declares nothing of any column."""
    return Policy.model_validate({"dataset": {"name": "t"}, "privacy": {"release": "covariance", "mu": 1.0, **privacy}})


def released(data: Any, policy: Policy, folder: Path) -> Receipt:
    """Return the receipt of a release into a folder."""
    return publish(data, policy, out=folder / "t.tar", key=KEY, ledger=Ledger(folder / "ledger"))


def people(n: int, seed: int = 1) -> pd.DataFrame:
    """Return a made-up survey, with words, dates, gaps, an identifier and a constant."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    frame = pd.DataFrame(
        {
            "person_id": np.arange(n),
            "age": np.round(45 + 14 * z[:, 0]).astype(int),
            "income": np.round(np.exp(10 + 0.5 * z[:, 1] + 0.3 * z[:, 0]), 2),
            "sex": np.where(z[:, 2] > 0, "f", "m"),
            "region": rng.choice(["North", "South", "East", "West"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), unit="D"),
            "smoker": np.where(z[:, 1] > 0.5, "yes", "no"),
            "employer": [f"firm {number}" for number in rng.integers(0, n // 3, n)],
            "same": 1.5,
        }
    )
    frame.loc[rng.random(n) < 0.04, "income"] = np.nan  # which noise on looks hides
    return frame


@pytest.fixture
def published(tmp_path: Path) -> Receipt:
    """Return the receipt of a text file of which nothing was declared."""
    people(4000).assign(seen=lambda frame: frame["seen"].dt.strftime("%d.%m.%Y")).to_csv(
        tmp_path / "t.csv", sep=";", decimal=",", index=False
    )
    return released(tmp_path / "t.csv", open_policy(mu=2.0), tmp_path)


def test_a_text_file_is_published_with_nothing_declared(published: Receipt) -> None:
    """Kinds, levels and gaps are found, the identifier and free text are left out, and the cost is the whole mu."""
    release = published.release
    assert {source.name: source.kind for source in release.sources} == {
        "income": "number",
        "sex": "category",
        "region": "category",
        "seen": "date",
    }
    region = next(source for source in release.sources if source.name == "region")
    assert set(region.levels) == {"North", "South", "East", "West"}
    assert [*published.left_out] == ["person_id", "employer"]
    assert "; rare words of 'sex', 'region', if any, count" in summarize_receipt(published, open_policy())
    assert [column.name for column in release.columns][:3] == ["age", "income", "income=(no value)"]
    guarantee, found = release.guarantee, release.discovery
    assert guarantee is not None
    assert found is not None
    assert guarantee.mu == pytest.approx(2.0, rel=1e-6)
    assert guarantee.discovery_mu == pytest.approx(found.mu(1), rel=1e-6)
    assert found.excepted_delta(1) <= guarantee.excepted_delta == 2.0**-40


@pytest.mark.parametrize("release", ["covariance", "rows"])
def test_levels_that_a_code_book_puts_in_an_order_are_one_column(release: str, tmp_path: Path) -> None:
    """They are public, whether or not they occur; a code without a label is a gap, and stops nothing.

    Neither do labels that are no levels of a policy, as two of them are the same. Of a scale with labels at its ends
    alone, those between are found.
    """
    rng = np.random.default_rng(4)
    answers = pd.DataFrame(
        {name: rng.choice([1.0, 2, 4, 9], 6000, p=[0.2, 0.3, 0.4, 0.1]) for name in ("mood", "odd", "ends")}
        | {"age": rng.normal(size=6000)}
    )
    labels = {"mood": {1: "bad", 2: "fair", 3: "good", 4: "great"}, "odd": {1: "x", 2: "x", 3: "x (1)"}}
    labels["ends"] = {1: "low", 4: "high"}
    measures = dict.fromkeys(labels, "ordinal")
    pyreadstat.write_sav(answers, tmp_path / "t.sav", variable_value_labels=labels, variable_measure=measures)
    policy = open_policy(mu=4.0, release=release).model_copy(update={"find": True})
    done = released(tmp_path / "t.sav", policy, tmp_path)
    mood = done.release.sources[0]
    assert (mood.kind, mood.levels, len(mood.columns)) == ("ordered", ("bad", "fair", "good", "great"), 2)
    assert done.release.columns[0].bounds == (0.0, 3.0)
    assert {"low", "2", "high"} < {*done.release.sources[-1].levels}
    if release == "covariance":
        with open_bundle(tmp_path / "t.tar", UnsafeTrustAnyone()) as bundle:
            counts = bundle.margins()[0].counts
        np.testing.assert_allclose(counts / 6000, [0.2, 0.3, 0.0, 0.4, 0.1], atol=0.02)


@pytest.mark.parametrize(
    ("separator", "cells", "beside", "values"),
    [
        (",", ["2,047", "963"], ["1", "2"], [2047.0, 963.0]),
        (";", ["1,234", "2,5"], ["1", "2"], [1.234, 2.5]),
        (";", ["1.234,50 EUR", "5 EUR"], ["1", "2"], [1234.5, 5.0]),
        (";", ["2,047", "963"], ["1", "2"], None),
        (";", ["1.234", "963"], ["1,5", "2"], [1234.0, 963.0]),
        (";", ["1.234", "963"], ["1", "2"], None),
        (",", ["1.234", "963"], ["1", "2"], [1.234, 963.0]),
        (";", ["2,047", "963"], ["1.5", "2"], [2047.0, 963.0]),
        (",", ["7"] * 7 + ["refused"], ["1"] * 8, [7.0, None]),
        (",", ["12.5%", "<2.5"], ["1", "2"], [12.5, None]),
    ],
)
def test_numbers_are_read_as_people_write_them(
    separator: str, cells: list[str], beside: list[str], values: list[object] | None, tmp_path: Path
) -> None:
    """By the counts of all columns; what does not fit is a published gap, and what may mean two things is left out."""
    frame = pd.DataFrame({"x": np.repeat(cells, 2000 // len(cells)), "y": np.repeat(beside, 2000 // len(beside))})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=separator)
    table, policy = open_table(tmp_path / "t.csv"), open_policy()
    found = find_candidates(table, policy)
    told = discover(table, lambda kinds: table.read(kinds, 4000), policy, found, lambda _, counts: counts)
    decided = decide(table, policy, found, told)
    assert (decided.left_out.get("x") == AMBIGUOUS) == (values is None)
    if values is not None:
        column = next(resolve(decided.table, decided.policy)[0].read({"x": "continuous"}, 4000)).column(0)
        assert pc.unique(column).to_pylist() == values
        assert (decided.policy.column("x").missing == "indicator") == (None in values)


def test_text_is_looked_at_alike_on_every_route(tmp_path: Path) -> None:
    """Whether it is of a text file, of Parquet, a dictionary's, or a column of objects."""
    cells = {"x": ["12.5%", "3", "refused", "7"], "day": ["31.01.2026"] * 4, "sure": ["yes", "no"] * 2}
    words = pd.DataFrame(cells | {"code": ["01067", "20095"] * 2, "y": ["a", "b"] * 2}).loc[np.arange(65_536) % 4]
    words.to_csv(tmp_path / "t.csv", index=False)
    words.to_parquet(tmp_path / "t.parquet", index=False)
    found = []
    for data in (tmp_path / "t.csv", tmp_path / "t.parquet", words.astype(object), words.astype("category")):
        table, policy = open_table(data), open_policy()
        sought = find_candidates(table, policy)
        told = discover(table, partial(table.read, rows=65_536), policy, sought, lambda _, counts: counts)
        decided = decide(table, policy, sought, told)
        published = resolve(decided.table, decided.policy)[0]
        (rows,) = published.read(dict.fromkeys(published.types, "continuous"), 65_536)
        found.append((decided.policy.columns, decided.discovery, [*map(str, rows.to_pylist())]))
    assert all(each == found[0] for each in found)
    kinds = {name: section.kind for name, section in found[0][0].items()}
    assert kinds == {"x": "continuous", "day": "date", "sure": "integer", "code": "category", "y": "category"}


def test_an_entity_pays_for_all_its_rows(tmp_path: Path) -> None:
    """A level needs more than one entity's rows, and the cost is that of an entity."""
    frame = people(4000).convert_dtypes().assign(who=lambda frame: frame["person_id"] // 4)
    policy = open_policy(mu=2.0, unit={"entity": "who", "max_rows": 4})
    receipt = released(frame, policy, tmp_path)
    found, guarantee = receipt.release.discovery, receipt.release.guarantee
    assert found is not None
    assert guarantee is not None
    assert found.mu(4) <= guarantee.discovery_mu < found.mu(5)
    assert found.excepted_delta(4) <= 2.0**-40 < found.excepted_delta(40)


def test_rows_are_drawn_where_a_key_of_a_folder_is_protected(tmp_path: Path) -> None:
    """A changed key moves a row to another file, and the places of others; by places, one level would be found."""
    places, file = np.arange(600_000), tmp_path / "k=1" / "t.parquet"
    file.parent.mkdir()
    pd.DataFrame({"x": places, "w": np.where(places // 1024 % 2, "a", "b")}).to_parquet(file)
    receipt = released(tmp_path, open_policy(), tmp_path)
    assert "w" not in receipt.left_out


def told(looks: dict[str, dict[Look, int]], levels: list[dict[str, int]] | None = None, n_rows: int = 10_000) -> Told:
    """Return what was told of the columns of a text file."""
    counts = [looks[name].get(look, 0) for name in looks for look in LOOKS]
    return Told(n_rows, counts, levels or [])


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ({Look.WHOLE: 10_000}, {"kind": "integer", "missing": "midpoint"}),
        ({Look.WHOLE: 7000, Look.GAP: 3000}, {"kind": "integer", "missing": "indicator"}),
        ({Look.WHOLE: 5000, Look.POINT: 5000}, {"kind": "continuous", "missing": "midpoint"}),
        ({Look.TRUTH: 9990, Look.WORD: 10}, {"kind": "integer", "bounds": (0.0, 1.0)}),
        ({Look.DAY_FIRST: 6000, Look.SLASHED: 4000}, {"kind": "date"}),
        ({Look.GAP: 10_000}, "hardly any value"),
    ],
)
def test_a_kind_follows_from_what_was_told(
    looks: dict[Look, int], said: dict[str, object] | str, tmp_path: Path
) -> None:
    """And from nothing else."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    table, policy = open_table(tmp_path / "t.csv"), open_policy()
    decided = decide(table, policy, find_candidates(table, policy), told({"a": looks, "b": {Look.POINT: 10_000}}))
    if isinstance(said, str):
        assert decided.left_out == {"a": said}
    else:
        assert {**said, **decided.policy.column("a").model_dump(include=set(said))} == said


def test_noise_as_large_as_the_rows_are_few_takes_no_column_away(tmp_path: Path) -> None:
    """Of 14 columns of 178 rows, at mu = 1, numbers with a point remain such, and none is left out."""
    (tmp_path / "t.csv").write_text(",".join("abcdefghijklmn") + "\n" + ",".join(["1.5"] * 14) + "\n")
    table, policy, rng = open_table(tmp_path / "t.csv"), open_policy(), np.random.default_rng(1)
    found, lost, sigma = find_candidates(table, policy), 0, np.sqrt(28) / 0.2
    for _ in range(100):
        noisy = rng.normal(0.0, sigma, (14, len(LOOKS))).round().astype(int)
        noisy[:, LOOKS.index(Look.POINT)] += 178
        counts = noisy.ravel().tolist()
        words = [each for each in Steps(policy, found, 178).columns(counts).values() if each.look is Look.WORD]
        decided = decide(table, policy, found, Told(178, counts, [{} for _ in words]))
        lost += sum(decided.policy.column(name).kind != "continuous" for name in table.types)
    assert lost <= 14


@pytest.mark.parametrize(
    ("levels", "gaps", "categories", "other", "missing"),
    [
        ({"x": 6000, "y": 4000}, 0, ("x", "y"), "x", "other"),
        ({"y": 5000, "x": 5000}, 0, ("x", "y"), "x", "other"),
        ({"x": 5000, "y": 3000}, 0, ("x", "y", "other"), "other", "other"),
        ({"x": 5000, "y": 3000}, 2000, ("x", "y"), "x", "category"),
        (
            {"x": 9990},
            0,
            "only one level has at least 2 % of the rows, and the others together",
            None,
            None,
        ),
        ({f"{place:02}": 250 for place in range(40)}, 0, tuple(f"{place:02}" for place in range(40)), "00", "other"),
        ({"x": 3000}, 0, "words: the levels with at least 2 %", None, None),
        ({}, 0, "words of which none", None, None),
    ],
)
def test_levels_follow_from_what_was_told(
    levels: dict[str, int], gaps: int, categories: tuple[str, ...] | str, other: str, missing: str, tmp_path: Path
) -> None:
    """Others, and gaps, are a level where there are more than a few, and else count as the most frequent level.

    Levels are in the order of their names, so that releases of the same people agree on it.
    """
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    table, policy = open_table(tmp_path / "t.csv"), open_policy()
    looks = {"a": {Look.WORD: 10_000 - gaps, Look.GAP: gaps}, "b": {Look.POINT: 10_000}}
    decided = decide(table, policy, find_candidates(table, policy), told(looks, [levels]))
    if isinstance(categories, str):
        assert decided.left_out["a"].startswith(categories)
        return
    section = decided.policy.column("a")
    assert (section.categories, section.other, section.missing) == (categories, other, missing)


def test_the_order_of_rows_decides_nothing() -> None:
    """Of two tables that differ in their first row, the values come in the same order, with the same noise."""
    step = NoisyLevels(mu=1.0, n_columns=1)
    told = [
        step.draw([Counter(dict.fromkeys(order, 500))], insecure_keystream(7)) for order in (("a", "b"), ("b", "a"))
    ]
    assert [list(each[0].items()) for each in told] == 2 * [list(told[0][0].items())]
    assert list(told[0][0]) == ["a", "b"]


def test_a_policy_that_declares_something_is_not_added_to(tmp_path: Path) -> None:
    """What a column holds is found only where every section is silent about it."""
    assert is_open(open_policy())
    for columns in ({"a": {"bounds": [0, 1]}}, {"a": {"kind": "continuous"}}, {"*": {"missing": "drop"}}):
        assert not is_open(Policy.model_validate({**open_policy().model_dump(), "columns": columns}))
    assert is_open(Policy.model_validate({**open_policy().model_dump(), "columns": {"a": {"drop": True}}}))
    for privacy in ({"mechanism": "gaussian"}, {"neighbours": "add-remove"}, {"mu": None, "epsilon": 1.0}):
        assert not is_open(open_policy(**privacy))
    with pytest.raises(PolicyError, match="by its name an identifier"):
        find_candidates(open_table(pa.table({"id": [1, 2]})), open_policy())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_frequent_word_for_a_gap_is_a_level(suffix: str, tmp_path: Path) -> None:
    """Nobody who answers "None" is taken for a gap, and an empty cell is no level."""
    rng = np.random.default_rng(5)
    answers = rng.choice(["None", "Some", "Much", ""], 6000, p=[0.4, 0.3, 0.1, 0.2])
    frame = pd.DataFrame({"drinks": answers, "x": rng.normal(size=6000), "y": rng.normal(size=6000)})
    if suffix == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    else:
        frame.assign(drinks=frame["drinks"].replace("", None)).to_parquet(tmp_path / "t.parquet")
    receipt = released(tmp_path / f"t.{suffix}", open_policy(mu=20.0), tmp_path)
    (source,) = receipt.release.sources
    assert (set(source.levels), source.gaps) == ({"None", "Some", "Much", "(no value)"}, "(no value)")


@pytest.mark.parametrize(
    "step", [NoisyCounts, NoisyLevels, Choice, NoisyLengths, NoisySums], ids=lambda step: step.__name__
)
def test_what_ends_right_after_a_search_stays_on_the_books(
    step: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each kind: whether there is a release must not tell what it found."""
    real = step.draw

    def ended(self: Any, *given: Any) -> None:
        real(self, *given)
        raise DataError("ended")

    monkeypatch.setattr(step, "draw", ended)
    people(2000).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="ended"):
        released(tmp_path / "t.csv", open_policy(mu=4.0), tmp_path)
    assert [entry.state for entry in Ledger(tmp_path / "ledger").entries()] == ["reserved"]
