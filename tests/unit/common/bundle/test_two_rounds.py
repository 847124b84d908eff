"""Bundles of two rounds: what is written is read, and what contradicts the manifest or itself is refused."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from tests.two_rounds import Rounds, manifest_of, members_of, release_in_two_rounds, write_rounds
from tests.unit.common.manifest.statements import read_release, replaced

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError, DpGraphError
from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.data import matrix
from dp_bundle.data.matrix import read_triangle, write_triangle
from dp_bundle.portals.export import export_csv
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import publish
from dp_publish.policy.model import Privacy

NAMES = ["height", "weight", "age"]


@pytest.fixture
def rounds() -> Rounds:
    """Return a release of three columns in two rounds."""
    rng = np.random.default_rng(5)
    return release_in_two_rounds(rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + [1, 2, 3], 2.0, rng)


@pytest.fixture
def path(rounds: Rounds, key: Ed25519PrivateKey, tmp_path: Path) -> Path:
    """Return a bundle of it."""
    return write_rounds(tmp_path / "two.tar", rounds, NAMES, key)


def test_all_three_matrices_come_back(path: Path, rounds: Rounds) -> None:
    """The second moments are those of the final round, and the first round and the transform are read beside them."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        assert [name for name in bundle.members if name.startswith("data/")] == [
            "data/covariance.parquet",
            "data/first-round.parquet",
            "data/transform.parquet",
        ]
        assert np.array_equal(bundle.second_moments(), rounds.matrices[1])
        assert np.array_equal(bundle.first_round(), rounds.matrices[0])
        assert np.array_equal(bundle.transform(), rounds.transform)
        with pytest.raises(BundleFormatError, match="no rows"):
            bundle.batches()


def test_one_round_has_no_first(covariance_bundle: Path) -> None:
    """A covariance of one round has neither a first round nor a transform."""
    with open_bundle(covariance_bundle, UnsafeTrustAnyone()) as bundle:
        for read in (bundle.first_round, bundle.transform):
            with pytest.raises(BundleFormatError, match="released in one round"):
                read()


@pytest.fixture
def covariance_bundle(table: pd.DataFrame, policy: Any, key: Ed25519PrivateKey, tmp_path: Path) -> Path:
    """Publish the small table's second moments."""
    own = policy.model_copy(update={"privacy": Privacy(release="covariance", mechanism="gaussian", mu=1.0)})
    return publish(table, own, out=tmp_path / "covariance.tar", key=key).path


def _one_round(moments: dict[str, Any]) -> dict[str, Any]:
    return {**moments, "mechanism": "gaussian", "first_round": None, "column_clip": None, "fourth_moment": None}


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("guarantee.mu", lambda mu: mu * 0.999, "mu is smaller"),
        ("guarantee.rho", lambda rho: rho * 0.999, "rho is smaller"),
        ("guarantee.bounds_mu", 0.0, "found privately, at a cost"),
        ("guarantee.bounds_mu", 0.5, "mu is smaller"),
        ("guarantee.neighbours", "add-remove", "private for replaced rows"),
        ("guarantee.epsilon", 3.0, "no pure epsilon"),
        ("guarantee.excepted_delta", 1e-9, "no pure epsilon"),
        ("guarantee.public", [], "number of rows"),
        ("second_moments.fourth_moment.sigma", lambda sigma: sigma * 0.5, "mu is smaller"),
        ("second_moments.fourth_moment.granularity", 0.3, "power of two"),
        ("second_moments.fourth_moment.granularity", 2.0**-40, "sigma must be a number"),
        ("second_moments.fourth_moment.sigma", 1e200, "sigma must be a number"),
        ("second_moments.fourth_moment.total", lambda total: total + 1e-6, "no multiple of its granularity"),
        ("second_moments.fourth_moment", None, "exactly with two rounds"),
        ("second_moments.first_round", None, "exactly with two rounds"),
        ("second_moments.column_clip", None, "exactly with two rounds"),
        ("second_moments.column_clip", 1.0, "larger than any row"),
        ("second_moments.column_clip", 1e10, "larger than that of any release"),
        ("second_moments.radius", lambda radius: radius * 1.01, "mu is smaller"),
        ("second_moments.first_round.radius", lambda radius: radius * 1.01, "mu is smaller"),
        ("second_moments.first_round.radius", 0.0, "greater than 0"),
        ("second_moments.first_round.constant", 0.0, "have a constant"),
        ("second_moments.constant", 0.0, "have a constant"),
        ("second_moments.first_round.distribution", None, "variances"),
        ("second_moments.first_round.diagonal_variance", lambda variance: variance * 1.01, "variances"),
        ("second_moments.estimated_diagonal_error", 1.0, "errors are estimated"),
        ("second_moments", _one_round, "exactly in a covariance release of two rounds"),
        ("columns", lambda columns: columns[:1], "at least two columns"),
        ("columns.0.standards", [], "one standard for each"),
        ("columns.0.standard_obtained", None, "one standard for each"),
        ("columns.0.standard_obtained", "private-histogram", "private-quantiles"),
        ("columns.0.standards.1.scale", 0.0, "greater than 0"),
        ("columns.0.standards.1.center", float("inf"), "finite"),
    ],
)
def test_each_broken_rule_is_refused(place: str, value: Any, message: str, rounds: Rounds) -> None:
    """A manifest of two rounds that breaks one rule is refused for it; some rules by a change of what is stated."""
    document = manifest_of(rounds, NAMES).model_dump(mode="json")
    assert read_release(document).second_moments is not None
    with pytest.raises(ValidationError, match=message):
        read_release(replaced(document, (place, value)))


def test_columns_may_have_no_bounds(rounds: Rounds) -> None:
    """Centers may have been looked for among all numbers, so that no bounds are stated."""
    document = manifest_of(rounds, NAMES).model_dump(mode="json")
    for column in document["columns"]:
        column.update(bounds=None, bounds_obtained="none")
    assert read_release(document).columns[0].bounds is None


@pytest.mark.parametrize("unit", ["cell", "entity"])
def test_other_units_are_checked_as_a_row_is(unit: str, rounds: Rounds) -> None:
    """A cell costs what its row does, and an entity of two rows twice what one does, but for what bounds cost."""
    document = manifest_of(rounds, NAMES).model_dump(mode="json")
    guarantee, total = document["guarantee"], document["cumulative"]
    mu = guarantee["mu"]
    if unit == "entity":
        guarantee.update(entity="who", max_rows=2, bounds_mu=2 * guarantee["bounds_mu"])
        guarantee["public"].append("which rows belong together")
        mu *= 2
    for factor, sound in ((1.0, True), (0.999, False)):
        guarantee.update(unit=unit, mu=mu * factor, rho=(mu * factor) ** 2 / 2 * (1 + 1e-12))
        named = "entity:who" if unit == "entity" else unit
        others = {"cell", "row"} - {unit}
        total.update(unit=named, mu=mu, rho=mu**2, other_units_rho=dict.fromkeys(others, mu**2))
        if sound:
            read_release(document)
        else:
            with pytest.raises(ValidationError, match="smaller than the bounds and the noise allow"):
                read_release(document)


def _read(rounds: Rounds, members: list[io.BytesIO], key: Ed25519PrivateKey, path: Path) -> None:
    """Write a bundle of these members and read all three matrices."""
    with path.open("wb") as file:
        write_bundle(file, manifest_of(rounds, NAMES), list(members), key)
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        bundle.second_moments(), bundle.first_round(), bundle.transform()


def _triangle(values: np.ndarray, labels: list[str]) -> io.BytesIO:
    file = io.BytesIO()
    write_triangle(values, labels, file)
    return file


def _singular(transform: np.ndarray) -> np.ndarray:
    transform[:2, :2] = 1.0
    return transform


def _nearly_singular(transform: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(transform)
    values[0] = 1e-9 * values[-1]
    return (vectors * values) @ vectors.T


def _indefinite(transform: np.ndarray) -> np.ndarray:
    transform[0, 1] = transform[1, 0] = 10.0
    return transform


@pytest.mark.parametrize(
    "change",
    [
        _singular,
        _nearly_singular,
        _indefinite,
        lambda transform: -transform,
        lambda transform: transform * 1e9,
        lambda transform: transform * 1e-9,
        lambda transform: transform * 1e300,
        lambda transform: transform * 0.0,
    ],
)
def test_a_transform_that_cannot_be_inverted_safely_is_refused(
    change: Callable[[np.ndarray], np.ndarray], rounds: Rounds, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """A transform that is singular, indefinite, nearly so or of an odd size is refused, though it was signed."""
    members = members_of(rounds, NAMES)
    _read(rounds, members, key, tmp_path / "sound.tar")
    members[2] = _triangle(change(rounds.transform.copy()), NAMES)
    with pytest.raises(BundleFormatError, match="inverted safely"):
        _read(rounds, members, key, tmp_path / "other.tar")


def test_a_first_round_that_its_noise_cannot_have_given_is_refused(
    rounds: Rounds, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """The first round's matrix lies on its grid, has finite entries, and counts the public number of rows."""
    step = rounds.granularities[0]
    for place, value, message in (
        ((0, 1), step / 2, "first-round.parquet holds a value that is no multiple"),
        ((0, 0), np.nan, "first-round.parquet holds a value that is not a number"),
        ((3, 3), 1.0, "first-round.parquet has another number of rows"),
    ):
        changed = rounds.matrices[0].copy()
        changed[place] += value
        members = members_of(rounds, NAMES)
        members[1] = _triangle(changed, [*NAMES, "(constant)"])
        with pytest.raises(BundleFormatError, match=message):
            _read(rounds, members, key, tmp_path / "other.tar")


def test_members_passed_off_as_each_other_are_refused(rounds: Rounds, key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """No matrix is taken for another, and none may be missing or more than there are."""
    final, first, transform = members_of(rounds, NAMES)
    for members in ([final, transform, first], [first, final, transform]):
        with pytest.raises(BundleFormatError):
            _read(rounds, members, key, tmp_path / "other.tar")
    with pytest.raises(ValueError, match="zip"):
        _read(rounds, [final, first], key, tmp_path / "other.tar")


@pytest.mark.parametrize("name", ["data/covariance.parquet", "data/first-round.parquet", "data/transform.parquet"])
def test_no_memory_is_taken_for_a_matrix_that_its_file_cannot_hold(
    name: str, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest of thousands of columns over small files is refused before there is room for any matrix."""
    column = manifest_of(rounds, NAMES).columns[0]
    many = tuple(column.model_copy(update={"name": f"c{index}"}) for index in range(5000))
    release = manifest_of(rounds, NAMES).model_copy(update={"columns": many})
    monkeypatch.setattr(matrix.np, "empty", lambda *_: pytest.fail("memory was taken"))
    for file in members_of(rounds, NAMES):
        with pytest.raises(BundleFormatError, match=f"{name} has fewer bytes than a matrix"):
            read_triangle(file, release, name)


def test_the_descriptions_tell_the_three_matrices_apart(path: Path) -> None:
    """README, package and Croissant name each matrix, and promise correlations rather than variances."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        readme = bundle.open("README.md").read().decode()
        package = json.load(bundle.open("datapackage.json"))
        croissant = json.load(bundle.open("croissant.json"))
        shown = describe_bundle(bundle, None)

    for text in (readme, shown):
        assert "variances come out low" in text
        assert "Round 1" in text
        assert "found privately" in text
        assert "within the bounds" not in text
    names = ["covariance", "first-round", "transform"]
    assert [each["name"] for each in package["resources"]] == names
    assert [each["name"] for each in croissant["recordSet"]] == names
    sources = [each["field"][2]["source"]["fileObject"]["@id"] for each in croissant["recordSet"]]
    assert sources == [f"data/{name}.parquet" for name in names]
    described = {each["field"][2]["description"] for each in croissant["recordSet"]}
    assert len(described) == 3


def test_inspection_shows_the_range_that_was_left_to_each_column(path: Path) -> None:
    """A person reads from where to where values were kept, in the column's unit, and how that was found."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        shown = describe_bundle(bundle, None)
        clip, column = bundle.release.second_moments.column_clip, bundle.release.columns[0]
    first = column.standards[0]
    low, high = (first.center + sign * clip * first.scale for sign in (-1, 1))

    line = next(each for each in shown.splitlines() if each.startswith(f"    {column.name}"))
    assert line.split(maxsplit=1)[1].startswith(f"{low:.6g} to {high:.6g}")
    assert "(found privately" in line


def test_all_three_matrices_come_out_as_csv(path: Path, rounds: Rounds, tmp_path: Path) -> None:
    """The matrix of the first round and the transform get files of their own; none replaces one that is there."""
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        written = export_csv(bundle, tmp_path / "t.csv")
        assert [each.name for each in written] == ["t.csv", "t-first-round.csv", "t-transform.csv"]
        for file, expected in zip(written, (rounds.matrices[1], rounds.matrices[0], rounds.transform), strict=True):
            found, places = pd.read_csv(file, dtype={"value": str}), np.triu_indices(len(expected))
            assert found["value"].map(float).tolist() == expected[places].tolist()
            labels = [*NAMES, "(constant)"]
            assert found[["row", "column"]].values.tolist() == [
                [labels[i], labels[j]] for i, j in zip(*places, strict=True)
            ]

        written[0].unlink()
        with pytest.raises(DpGraphError, match=r"t-first-round\.csv already"):
            export_csv(bundle, tmp_path / "t.csv")
        assert not written[0].exists()
