"""A covariance release: whole or not at all, paid for, and with the second moments of the clipped rows inside."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import make_policy as policy_with
from tests.unit.publisher.release.conftest import Publish, nothing_happened, states

from dp_bundle.base.errors import DataError, MissingValuesError, ParameterError, PolicyError, PrivacyError
from dp_bundle.bundle.reading import open_bundle
from dp_publish import Policy, Receipt
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import covariance as covariance_release
from dp_publish.sampling.keystream import insecure_keystream

BOUNDS = {"height": {"bounds": [120, 220]}, "weight": {"bounds": [20, 140]}, "visits": {"bounds": [0, 30]}}
UNIT = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}}


def make_policy(columns: dict[str, Any] = BOUNDS, **privacy: Any) -> Policy:
    """Return a policy for a covariance release."""
    document = {"dataset": {"name": "people"}, "privacy": {"release": "covariance", **privacy}, "columns": columns}
    return Policy.model_validate(document)


def read(receipt: Receipt) -> np.ndarray:
    """Verify a bundle and return its matrix."""
    with open_bundle(receipt.path) as opened:
        assert opened.release == receipt.release
        return opened.second_moments()


def test_auto_chooses_by_the_number_of_rows_only_where_that_is_public(
    table: pd.DataFrame, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With replaced rows the count decides and is said; where rows come and go no row is read to choose."""
    gaps = {"height": {"bounds": [0, 300], "missing": "drop"}, "weight": {"bounds": [0, 300]}, "visits": {"drop": True}}
    table = table.assign(height=table["height"].where(table.index > 9))
    public = publish_here(table, make_policy(gaps, epsilon=1.0))
    assert "for 390 rows and 2 columns" in public.remark
    monkeypatch.setattr(covariance_release.CovarianceMaker, "_count_rows", lambda _: pytest.fail("rows were counted"))
    for strength, name in (({"epsilon": 1.0}, "wishart-difference"), ({"mu": 1.0}, "gaussian")):
        hidden = publish_here(table, make_policy(gaps, neighbours="add-remove", **strength), out=f"{name}.tar")
        assert hidden.release.second_moments.mechanism == name


def test_what_was_done_to_rows_is_counted(publish_here: Publish) -> None:
    """Dropped rows, filled cells, and values outside bounds, even infinite ones, which count as if at them."""
    frame = pd.DataFrame({"a": [0.5, None, 9.0, 1.0, -np.inf], "b": pd.array([1, 2, None, 4, 8], dtype="Int64")})
    columns = {"a": {"bounds": [0, 1], "missing": "drop"}, "b": {"bounds": [0, 8], "missing": "midpoint"}}
    receipt = publish_here(frame, make_policy(columns, mu=1e4, mechanism="gaussian"))
    report = receipt.report
    assert (receipt.release.n_rows, report.n_rows, report.n_dropped, report.filled) == (4, 4, 1, {"b": 1})
    assert report.n_clipped_rows == 2
    rows = np.array([[0.0, -0.75], [1.0, 0.0], [1.0, 0.0], [-1.0, 1.0]])
    np.testing.assert_allclose(read(receipt)[:2, :2], rows.T @ rows, atol=4e-3)


def test_manifest_does_not_depend_on_private_values(tmp_path: Path, publish_here: Publish) -> None:
    """Tables as different as can be get equal manifests; their number of rows does not show where it is protected."""
    frames = [pd.DataFrame(0.0, range(50), ["x", "y"]), pd.DataFrame(np.inf, range(50), ["x", "y"])]
    hiding = {"neighbours": "add-remove", "mechanism": "gaussian"}
    for policy, count in (
        (policy_with({"x": [0, 1], "y": [0, 1]}, mu=1.0), {}),
        (make_policy(UNIT, mu=1.0, mechanism="gaussian"), {}),
        (make_policy(UNIT, mu=1.0, **hiding), {"n_rows": True}),
    ):
        found = []
        for index, frame in enumerate([*frames, *([frames[1].head(20)] if count else [])]):
            where = tmp_path / f"{len(list(tmp_path.iterdir()))}-{index}"
            made = publish_here(frame, policy, out=f"{where}.tar", ledger=Ledger(Path(f"{where}.sqlite"))).release
            found.append(made.model_dump(exclude={"lineage": {"created", "ledger_head"}, **count}))
        assert all(document == found[0] for document in found)


def test_estimated_errors_follow_from_the_release_alone(publish_here: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the table was, the same noisy matrix and the same random bits give the same estimate of its errors."""
    honest, fresh, released, stated = Eigenvectors.draw, [True], [], []

    def draw(mechanism: Any, sums: Any, rng: Any) -> Any:
        if not fresh:
            return honest(mechanism, sums, rng)
        fresh.clear()
        released.append(honest(mechanism, sums, insecure_keystream(1)))
        return released[0]

    monkeypatch.setattr(Eigenvectors, "draw", draw)
    policy = make_policy({name: {"bounds": [-1, 1]} for name in "abc"}, epsilon=50.0, mechanism="eigenvectors")
    for index, values in enumerate((np.eye(3), np.zeros((3, 3)))):
        fresh[:] = [True]
        table = pd.DataFrame(values, columns=list("abc"))
        made = publish_here(table, policy, out=f"{index}.tar", keystream=insecure_keystream(5)).release.second_moments
        stated.append((made.estimated_diagonal_error, made.estimated_off_diagonal_error))
    assert stated[0][0] is not None
    assert stated[0] == stated[1]


REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[Exception]]] = [
    ({"height": {"bounds": [120, 220]}}, {"mu": 1.0, "mechanism": "gaussian"}, PolicyError),
    ({"(constant)": {"bounds": [0, 1]}}, {"mu": 1.0}, PolicyError),
    (BOUNDS, {"mu": 1.0, "l2_radius": 2.0}, PolicyError),
    *((BOUNDS, {"mu": mu}, ParameterError) for mu in (1e7, 1e-300)),
    (BOUNDS, {"unit": {"entity": "name", "max_rows": 10}, "rho": 1e-300}, ParameterError),
    (BOUNDS, {"epsilon": 1.0, "delta": 1e-300, "mechanism": "wishart"}, PrivacyError),
    *(
        ({"empty": {"bounds": [0, 1], "missing": "drop"}}, {"mu": 1.0, "mechanism": m}, DataError)
        for m in ("auto", "gaussian")
    ),
    ({"empty": {"bounds": [0, 1]}, "weight": {"bounds": [0, 1]}}, {"mu": 1.0}, MissingValuesError),
]


@pytest.mark.parametrize(("columns", "privacy", "error"), REFUSED, ids=str)
def test_what_cannot_be_released_is_refused_before_it_costs(
    columns: dict[str, Any],
    privacy: dict[str, Any],
    error: type[Exception],
    table: pd.DataFrame,
    tmp_path: Path,
    publish_here: Publish,
) -> None:
    """Missing bounds, impossible radii, strengths and names, gaps, and tables without rows leave nothing."""
    frame = table.assign(**{"(constant)": 1.0, "empty": np.nan})
    others = {"(constant)": {"drop": True}, "empty": {"drop": True}} if "height" in columns else {"*": {"drop": True}}
    given = {name: {**section, "drop": False} for name, section in columns.items()} if "*" in others else columns
    with pytest.raises(error):
        publish_here(frame, make_policy({**others, **given}, **privacy))
    assert nothing_happened(tmp_path, set())


def test_a_sampler_that_gives_up_is_paid_for(
    table: pd.DataFrame, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often the eigenvectors' sampler gives up may depend on the data, so that its failure counts as spent."""

    def give_up(*_: object, **__: object) -> None:
        raise PrivacyError("the sampler gave up")

    monkeypatch.setattr(Gaussian, "draw", give_up)
    monkeypatch.setattr(Eigenvectors, "draw", give_up)
    for mechanism, left in (("gaussian", []), ("eigenvectors", ["reserved"])):
        with pytest.raises(PrivacyError, match="gave up"):
            publish_here(table, make_policy(mu=1.0, mechanism=mechanism))
        assert states() == left


def test_nobody_in_the_table_is_protected_too(publish_here: Publish) -> None:
    """Where rows may come and go, a table without rows is published like one with a single row."""
    empty = pd.DataFrame({"x": [], "y": []}, dtype=float)
    assert publish_here(empty, make_policy(UNIT, mu=1.0, neighbours="add-remove")).release.n_rows >= 1
