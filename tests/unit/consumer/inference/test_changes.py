"""Changes over time: contrasts, their errors and change points against closed forms."""

import numpy as np
import pytest
from tests.unit.consumer.inference.test_differences import N_ROWS, P, released

from dp_learn.inference.changes import Changes, find_changes
from dp_learn.inference.releases import estimate_releases

SERIES = (0.1, 0.1, 0.1, 0.4, 0.4, 0.4, 0.4)


def changes_of(links: tuple[float, ...], *, in_time: bool = True, n_rows: tuple[int, ...] = ()) -> Changes:
    """Return the changes of releases whose debiased covariances are exactly the true ones."""
    rows = n_rows or (N_ROWS,) * len(links)
    releases = [released(link, n) for link, n in zip(links, rows, strict=True)]
    return find_changes(estimate_releases(releases, np.arange(P)), in_time=in_time, n_draws=300)


def test_the_change_point_is_where_the_link_changes() -> None:
    """There is one, of the pair that changed."""
    found = changes_of(SERIES)
    (one,) = found.found

    assert (one.before, one.after) == ((0, 1, 2), (3, 4, 5, 6))
    assert one.corrected == pytest.approx(2.0 / 301.0)
    assert (found.evidence <= 0.01).tolist() == [False, False, True, False, False, False]
    np.testing.assert_allclose(one.difference, [0.3, *[0.0] * 5], atol=1e-12)
    assert (one.q_value <= 0.05).tolist() == [True, *[False] * 5]
    assert one.q_value[0] == pytest.approx(one.p_value[0] * 6 * 6)  # pairs, and places between periods


def test_errors_are_those_of_weighted_means() -> None:
    """Without noise the error of a mean of rows is that of all its rows together, whatever each period has."""
    rows = (500, 2000, 1000, 4000, 500, 1000, 2000)
    one = changes_of(SERIES, n_rows=rows).found[0]
    r = np.array([[0.1, 0.4], *[[0.0, 0.0]] * 4, [0.3, 0.3]])
    n = np.array([sum(k - 1 for k in rows[:3]), sum(k - 1 for k in rows[3:])])

    np.testing.assert_allclose(one.standard_error, np.sqrt((((1 - r**2) ** 2) / n).sum(axis=1)), rtol=1e-9)
    np.testing.assert_allclose(one.before_value, r[:, 0], atol=1e-12)
    np.testing.assert_allclose(one.after_value, r[:, 1], atol=1e-12)


def test_two_changes_are_told_apart_and_none_is_made_up() -> None:
    """Windows do not reach across a change point that was found; equal periods have no evidence for one anywhere."""
    found = changes_of((0.1, 0.1, 0.1, 0.45, 0.45, 0.45, -0.3, -0.3, -0.3), n_rows=(4000,) * 9).found
    assert [(one.before, one.after) for one in found] == [((0, 1, 2), (3, 4, 5)), ((3, 4, 5), (6, 7, 8))]
    equal = changes_of((0.3,) * 5)
    assert equal.found == []
    assert (equal.evidence > 0.5).all()


def test_without_an_order_those_that_differ_are_set_aside() -> None:
    """They are compared with all that do not differ, which have no evidence against them; of two the later differs."""
    found = changes_of((0.1, 0.1, 0.45, 0.1, -0.3), in_time=False)
    assert [(one.before, one.after) for one in found.found] == [((0, 1, 3), (2,)), ((0, 1, 3), (4,))]
    assert (found.evidence <= 0.01).tolist() == [False, False, True, False, True]
    assert all(one.q_value[0] <= 1e-6 and np.nanmin(one.q_value[1:]) > 0.5 for one in found.found)
    assert [one.after for one in changes_of((0.1, 0.5), in_time=False).found] == [(1,)]
