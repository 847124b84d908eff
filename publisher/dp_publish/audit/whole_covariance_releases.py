"""Whole covariance releases attacked: made-up tables are published, and what a reader finds is judged.

Thousands of whole releases would take too long; the statistics on the mechanism (`moments`, `black_box`) stay. Beside
them, thirty whole releases show noise of the stated strength around the exact sums, where it acts entry by entry: the
sum of the squares, or magnitudes, of all entries is chi-squared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats

from dp_bundle.errors import DpGraphError, PrivacyError
from dp_bundle.manifest import SecondMoments as StatedMoments
from dp_publish.audit.books import check_books_of_moments
from dp_publish.audit.canaries import values_inside
from dp_publish.audit.checks import Check, check_signs, make_check
from dp_publish.audit.made_up import chunked
from dp_publish.audit.mechanisms import audit_moments
from dp_publish.audit.press import Press, Published, made_up_policy, publish_made_up
from dp_publish.audit.replay import check_replay
from dp_publish.audit.report import AuditReport
from dp_publish.covariance import (
    BY_EIGENVECTORS,
    MechanismSetting,
    moment_columns,
    moments_of_batch,
    set_mechanism,
    unit_mu_of,
)
from dp_publish.policy import Policy

__all__ = ["audit_covariance"]

_RELEASES, _ROWS = 30, 25
_ENTRYWISE = ("rounded-gaussian", "discrete-laplace")


def audit_covariance(
    policy: Policy,
    kinds: dict[str, str],
    count_rows: Callable[[], int],
    press: Press,
    *,
    n_canaries: int | None = None,
    confidence: float = 0.9999,
    tell: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """Attack the mechanism that a policy sets, and whole releases by it.

    Parameters
    ----------
    policy : Policy
        For a covariance release.
    kinds : dict of str to str
        The columns.
    count_rows : callable
        Returns the number of rows that the release would have, where `auto` asks for it.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publish_aside`.
    n_canaries, confidence
        As in `audit_moments`.
    tell : callable
        Told the mechanism before the attack, which may take minutes.
    """
    setting = set_mechanism(policy, kinds, count_rows)
    tell(setting.mechanism)
    report = audit_moments(setting, n_canaries=n_canaries, confidence=confidence)
    return replace(report, checks=(*report.checks, *check_whole(policy, kinds, setting, press, 1 - confidence)))


def check_whole(
    policy: Policy, kinds: dict[str, str], setting: MechanismSetting, press: Press, alpha: float
) -> tuple[Check, ...]:
    """Publish made-up tables by the mechanism that was set, and judge what a reader finds; see `check_replay`."""
    policy = made_up_policy(policy, kinds)
    chosen = policy.privacy.mechanism
    if policy.privacy.neighbours.n_rows_public:  # else `auto` must choose the same for made-up rows
        chosen = setting.mechanism  # type: ignore[assignment]
    policy = policy.model_copy(update={"privacy": policy.privacy.model_copy(update={"mechanism": chosen})})
    columns = moment_columns(policy, kinds)
    rng = np.random.default_rng(1)
    values = np.column_stack(values_inside(columns, _ROWS, rng)).astype(np.float64)
    arrays = [pa.array(column) for column in values.T]
    unit = policy.privacy.entity
    owners = (unit.entity, pa.array(range(_ROWS))) if unit else None
    table = chunked(columns, arrays, owners)
    by_eigenvectors = setting.mechanism in BY_EIGENVECTORS
    n = 1 if setting.mechanism in (*BY_EIGENVECTORS, "wishart") else _RELEASES
    try:
        released = [publish_made_up(press, table, policy) for _ in range(n)]
    except (DpGraphError, ValidationError) as error:
        return (make_check("books", [f"made-up rows cannot be published: {error}"], ""),)
    hidden = ["README.md", "estimated_diagonal_error", "estimated_off_diagonal_error"] if by_eigenvectors else []
    if not policy.privacy.neighbours.n_rows_public:
        hidden += ["README.md", "n_rows"]
    allowed, loss = _allowed(policy, setting)
    replay = check_replay(press, policy, columns, allowed, loss, hidden=hidden, same_bits=not by_eigenvectors)
    books = check_books_of_moments(policy, released[0])
    stated = released[0].release.second_moments
    if stated is None or stated.distribution not in _ENTRYWISE:
        return replay, books
    exact = moments_of_batch(values, setting.scaling).matrix
    public_rows = policy.privacy.neighbours.n_rows_public
    return _check_entries(released, exact, public_rows=public_rows, alpha=alpha), replay, books


def _allowed(
    policy: Policy, setting: MechanismSetting
) -> tuple[float, Callable[[Published, NDArray[np.float64]], float]]:
    """Return how far apart releases of neighbours may come out with the same random bits, and what measures that."""
    rows, d = setting.max_rows, setting.scaling.n_coordinates

    def entries(published: Published, moved: NDArray[np.float64]) -> NDArray[np.float64]:
        stated = _stated(published)
        return np.asarray((moved / _scales(stated, len(moved)))[np.triu_indices(len(moved))])

    if setting.mechanism in ("gaussian", "sulq"):
        return unit_mu_of(policy.privacy), lambda *found: float(np.linalg.norm(entries(*found)))
    if setting.mechanism == "laplace":
        return setting.epsilon or 0.0, lambda *found: float(np.abs(entries(*found)).sum())
    if setting.mechanism == "wishart":

        def in_rows(published: Published, moved: NDArray[np.float64]) -> float:
            stated = _stated(published)
            grid = d * (stated.granularity or 0.0)  # which may add a step to every entry
            nuclear = float(np.linalg.norm(moved, "nuc"))
            return max(nuclear - grid, 0.0) / stated.parameters["scale"]

        return rows * setting.neighbours.nuclear, in_rows
    return 0.0, lambda *_: 0.0


def _stated(published: Published) -> StatedMoments:
    if published.release.second_moments is None:
        raise PrivacyError("the audit failed: a covariance release does not describe its matrix")
    return published.release.second_moments


def _scales(stated: StatedMoments, d: int) -> NDArray[np.float64]:
    """Return the stated scale of every entry's noise."""
    if stated.distribution == "discrete-laplace":
        return np.full((d, d), stated.parameters["scale"])
    scales = np.full((d, d), stated.parameters["off_diagonal_sigma"])
    np.fill_diagonal(scales, stated.parameters["diagonal_sigma"])
    return scales


def _check_entries(released: list[Published], exact: NDArray[np.float64], *, public_rows: bool, alpha: float) -> Check:
    """Check that entries, on and beside the diagonal, are off the exact sums by noise of the stated strength."""
    stated, d = _stated(released[0]), len(exact)
    noise = np.array([(one.values - exact) / _scales(stated, d) for one in released])
    upper = np.triu_indices(d)
    free = np.ones(len(upper[0]), dtype=bool)
    free[-1] = not (public_rows and stated.constant)  # else the corner's entry is exact
    entries, diagonal = noise[:, upper[0], upper[1]][:, free], (upper[0] == upper[1])[free]
    faults = []
    for where, chosen in (("on", diagonal), ("beside", ~diagonal)):
        found = entries[:, chosen].ravel()
        if not len(found):
            continue
        laplace = stated.distribution == "discrete-laplace"
        total, freedom = (2 * np.abs(found).sum(), 2 * len(found)) if laplace else (found @ found, len(found))
        chance = 2 * min(stats.chi2.cdf(total, freedom), stats.chi2.sf(total, freedom))
        if chance < alpha / 4:
            faults.append(
                f"the noise {where} the diagonal of whole releases has {total / freedom:.4g} times its stated size"
            )
    independence = check_signs([np.sign(entries).astype(np.int8)], alpha / 4)
    faults += [] if independence.passed else [independence.detail]
    return make_check(
        "whole releases", faults, f"{len(released)} whole releases carry the noise stated around exact sums"
    )
