"""A covariance from two rounds is the generalised least squares of both, and errs by the law that is stated of it."""

import itertools
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import Rounds, manifest_of, release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.estimate import FormErrors, NoisyCovariance, ReleasedCovariance, combine_sources
from dp_learn.covariance.sources import bundle_source
from dp_learn.covariance.standard_errors import mechanism_errors
from dp_learn.covariance.two_rounds import RoundMatrices, combine_rounds, expected_kurtosis

FORMS = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, -1.0, 0.2, 0.1], [-0.3, 0.7, 1.0, 2.0], [0.0, 0.0, 0.1, -0.2]])
NAMES = "abcd"


def rounds_of(seed: int = 0) -> Rounds:
    """Return a release of four correlated columns in different units, whose centers and scales are somewhat off."""
    rng = np.random.default_rng(seed)
    units = np.geomspace(0.1, 100.0, 4)
    rows = (rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=4)) * units
    deviations = rows.std(axis=0)
    place = {"center": rows.mean(axis=0) + 0.4 * deviations, "scale": 0.7 * deviations}
    return release_in_two_rounds(rows, 1.5, rng, **place)


def combined(rounds: Rounds) -> tuple[np.ndarray, ReleasedCovariance]:
    """Read a release as the learner does."""
    release = manifest_of(rounds, NAMES)
    matrices = RoundMatrices(*rounds.matrices, rounds.transform)
    assert release.second_moments is not None
    return combine_rounds(release.second_moments, matrices, release.columns, rounds.n_rows)


def units_of(p: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Return the unknowns' places, the sums over rows of products of columns, each with each and with 1, and units."""
    pairs = [(i, j) for i, j in itertools.combinations_with_replacement(range(p + 1), 2) if (i, j) != (p, p)]
    units = np.zeros((len(pairs), p + 1, p + 1))
    for unit, (i, j) in zip(units, pairs, strict=True):
        unit[i, j] = unit[j, i] = 1.0
    return pairs, units


def least_squares(rounds: Rounds) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, covariance (divisor n - 1), what this adds for the mean's noise, and the unknowns' covariance.

    It is one vectorised least squares over all published entries but the corners, which count the rows.
    """
    p, n = len(rounds.transform), rounds.n_rows
    pairs, units = units_of(p)
    at = tuple(np.array(pairs).T)
    corner = np.zeros((p + 1, p + 1))
    corner[p, p] = n
    design, seen, variances = [], [], []
    turns = (np.eye(p), rounds.transform)
    for center, scale, constant, turn, matrix, sigma in zip(
        rounds.centers, rounds.scales, rounds.constants, turns, rounds.matrices, rounds.sigmas, strict=True
    ):
        to_row = np.block([[turn / scale, -(turn / scale) @ center[:, None]], [np.zeros((1, p)), constant]])
        design.append(np.array([(to_row @ unit @ to_row.T)[at] for unit in units]).T)
        seen.append((matrix - to_row @ corner @ to_row.T)[at])
        variances.append(np.where(at[0] == at[1], sigma**2, sigma**2 / 2))
    root = 1 / np.sqrt(np.concatenate(variances))
    whitened = np.vstack(design) * root[:, None]
    size = np.linalg.norm(whitened, axis=0)
    whitened /= size
    covariance = np.linalg.inv(whitened.T @ whitened) / np.outer(size, size)
    unknowns = np.linalg.lstsq(whitened, np.concatenate(seen) * root, rcond=None)[0] / size
    sums = np.tensordot(unknowns, units, 1)
    mean, known = sums[:p, p] / n, [pairs.index((i, p)) for i in range(p)]
    added = covariance[np.ix_(known, known)] / n**2 * n / (n - 1)
    return mean, (sums[:p, :p] / n - np.outer(mean, mean)) * n / (n - 1) + added, added, covariance


def brute_force_errors(rounds: Rounds, forms: np.ndarray) -> FormErrors:
    """Return the first-order errors of the forms from the covariance of the unknowns and the forms' derivatives."""
    (mean, *_, covariance), p, moved = least_squares(rounds), len(rounds.transform), []
    for unit in units_of(p)[1] / rounds.n_rows:
        change = unit[:p, :p] - np.outer(mean, unit[:p, p]) - np.outer(unit[:p, p], mean)
        moved.append(forms @ change @ forms.T)
    own = np.moveaxis(np.array(moved), 0, -1)
    diagonal = np.einsum("iik->ik", own)
    total = diagonal[:, None] + diagonal[None]
    return FormErrors(
        np.einsum("ijk,kl,ijl->ij", own, covariance, own),
        np.einsum("ijk,kl,ijl->ij", own, covariance, total),
        np.einsum("ijk,kl,ijl->ij", total, covariance, total) / 4.0,
    )


def test_two_rounds_and_their_law_are_those_of_generalised_least_squares() -> None:
    """Mean, covariance and all errors of forms are those of a brute-force least squares over all published entries."""
    for seed in range(5):
        rounds = rounds_of(seed)
        (mean, released), (expected_mean, wanted, *_) = combined(rounds), least_squares(rounds)
        deviations = np.sqrt(np.diagonal(wanted))
        np.testing.assert_allclose((mean - expected_mean) / deviations, 0.0, atol=1e-8)
        np.testing.assert_allclose((released.debiased - wanted) / np.outer(deviations, deviations), 0.0, atol=1e-7)

        forms = FORMS / rounds.scales[0]
        stated, expected = (
            mechanism_errors(combine_sources(NAMES, [released]), forms),
            brute_force_errors(rounds, forms),
        )
        size = np.sqrt(expected.products * expected.squares)
        found, wanted = (np.array([*vars(each).values()]) / size for each in (stated, expected))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_kurtosis_scales_the_sampling_error_alone() -> None:
    """Heavier tails raise the sampling part by their factor, once for releases of the same rows, not the noise's."""
    released = combined(rounds_of())[1]
    plain, heavy = (replace(released, kurtosis=factor) for factor in (1.0, 3.0))
    n = released.n_rows
    each = [combine_sources(NAMES, [source]) for source in (plain, heavy)]
    assert [one.sampling_factor * (n - 1) for one in each] == pytest.approx([1.0, 3.0])
    np.testing.assert_array_equal(*[mechanism_errors(one, np.eye(4)).products for one in each])

    rows = NoisyCovariance(n, released.debiased, np.ones(4), np.zeros(4))
    same = combine_sources(NAMES, [heavy, plain, rows], [0.5, 0.3, 0.2], same_rows=True)
    assert same.sampling_factor == pytest.approx(2 / (n - 1))
    different = combine_sources(NAMES, [heavy, rows], [0.5, 0.5])
    assert different.sampling_factor == pytest.approx((3 + 1) / 4 / (n - 1))


def test_a_bundle_reads_the_same_in_any_order_of_its_columns(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Mean, covariance and errors follow their columns where another bundle names them in another order."""
    rounds = rounds_of()
    path = write_rounds(tmp_path / "one.tar", rounds, NAMES, key)
    order = [2, 0, 3, 1]
    like = write_rounds(tmp_path / "two.tar", rounds, [NAMES[index] for index in order], key)
    with open_bundle(path, UnsafeTrustAnyone()) as one, open_bundle(like, UnsafeTrustAnyone()) as other:
        plain, turned = bundle_source(one), bundle_source(one, like=other)
    assert "".join(turned.columns) == "cadb"
    np.testing.assert_allclose(turned.mean, plain.mean[order], rtol=1e-9)
    expected = plain.released.debiased[np.ix_(order, order)]
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    np.testing.assert_allclose(turned.released.debiased / scale, expected / scale, atol=1e-9)
    laws = [each.released.known_noise.variances_of_variances() for each in (plain, turned)]
    np.testing.assert_allclose(laws[1], laws[0][order], rtol=1e-7)


def test_what_cannot_be_computed_is_refused() -> None:
    """One row has no covariance, and units so far apart that numbers overflow are named."""
    rounds = rounds_of()
    with pytest.raises(EstimationError):
        combined(replace(rounds, n_rows=1))
    scales = rounds.scales[0] * 1e160, rounds.scales[1] * 1e-160
    far = replace(rounds, centers=np.zeros((2, 4)), scales=scales)
    with pytest.raises(EstimationError):
        combined(far)


def test_rounding_makes_no_variance_negative() -> None:
    """Where a manifest puts centers so far away that rounding is all that is left, errors remain numbers."""
    rounds = rounds_of()
    far = replace(rounds, centers=(rounds.centers[0], rounds.centers[1] + 1e14 * rounds.scales[0]))
    noise = combined(far)[1].known_noise
    errors = noise.terms(np.eye(4), FORMS / rounds.scales[0]).errors(slice(None))
    for variances in (noise.variances_of_variances(), errors.products, errors.squares):
        assert (variances >= 0.0).all()


@pytest.mark.parametrize(
    ("seen", "error"),
    [(0.0, 0.1), (1.0, 0.1), (-0.5, 0.2), (3.0, 2.0), (-4.0, 1.0), (2.0, 30.0), (0.5, 1e4)],
)
def test_expected_kurtosis_is_the_mean_of_what_is_left(seen: float, error: float) -> None:
    """It is the mean of an exponential number given a normal one about it, integrated at high precision."""
    with mpmath.workdps(40):

        def density(kappa: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-kappa - (kappa - seen) ** 2 / (2 * mpmath.mpf(error) ** 2))

        top, unit = max(0.0, seen - error * error), min(1.0, error)
        ends = [0, *(top + factor * unit for factor in (1e-3, 1, 5, 80))]
        expected = mpmath.quad(lambda kappa: kappa * density(kappa), ends) / mpmath.quad(density, ends)
    assert expected_kurtosis(seen, error) == pytest.approx(float(expected), rel=1e-4)
    assert 0.0 <= expected_kurtosis(-50.0, 1e-9) < 1e-9
