"""A covariance from two rounds is the generalised least squares of both, and errs by the law that is stated of it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.two_rounds import Rounds, manifest_of, release_in_two_rounds, write_rounds

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.debias import FormErrors, NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.estimate import combine_sources, keep_columns
from dp_learn.covariance.sample import effective_rows, pool_sources
from dp_learn.covariance.sources import CovarianceSource, bundle_source
from dp_learn.covariance.standard_errors import (
    entry_variances,
    form_variances,
    mechanism_entry_variances,
    mechanism_errors,
    sum_over_pairs,
    unexplained_variances,
)
from dp_learn.covariance.two_rounds import RoundMatrices, TwoRounds, combine_rounds, kurtosis_factor

FORMS = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, -1.0, 0.2, 0.1], [-0.3, 0.7, 1.0, 2.0], [0.0, 0.0, 0.1, -0.2]])
NAMES = "abcd"


def values(rng: np.random.Generator, n: int = 400, p: int = 4) -> np.ndarray:
    """Return rows of correlated columns in different units, away from zero."""
    units = np.geomspace(0.1, 100.0, p)
    return (rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)) * units


def rounds_of(seed: int = 0, mu: float = 1.5, **settings: float) -> Rounds:
    """Return a release of four columns, whose centers and scales are somewhat off."""
    rng = np.random.default_rng(seed)
    rows = values(rng)
    deviations = rows.std(axis=0)
    place = {"center": rows.mean(axis=0) + 0.4 * deviations, "scale": 0.7 * deviations}
    return release_in_two_rounds(rows, mu, rng, **place, **settings)


def combined(rounds: Rounds) -> tuple[np.ndarray, ReleasedCovariance]:
    """Read a release as the learner does."""
    release = manifest_of(rounds, NAMES[: len(rounds.transform)])
    matrices = RoundMatrices(*rounds.matrices, rounds.transform)
    assert release.second_moments is not None
    return combine_rounds(release.second_moments, matrices, release.columns, rounds.n_rows)


def design_of(rounds: Rounds) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the linear model of all published entries but the corners: design, what was seen, variances, offset.

    The unknowns are the sums over rows of products of columns, in data units, each with each and with 1; the number of
    rows is known, and is what the offset comes from.
    """
    p = len(rounds.transform)
    pairs = [(i, j) for i, j in itertools.combinations_with_replacement(range(p + 1), 2) if (i, j) != (p, p)]
    maps = []
    for center, scale, constant, turn in zip(
        rounds.centers, rounds.scales, rounds.constants, (np.eye(p), rounds.transform), strict=True
    ):
        to_row = np.zeros((p + 1, p + 1))
        to_row[:p, :p] = turn / scale
        to_row[:p, p] = -(turn / scale) @ center
        to_row[p, p] = constant
        maps.append(to_row)
    design, seen, variances, offset = [], [], [], []
    corner = np.zeros((p + 1, p + 1))
    corner[p, p] = rounds.n_rows
    for to_row, matrix, sigma in zip(maps, rounds.matrices, rounds.sigmas, strict=True):
        columns = []
        for i, j in pairs:
            unit = np.zeros((p + 1, p + 1))
            unit[i, j] = unit[j, i] = 1.0
            columns.append([(to_row @ unit @ to_row.T)[k, m] for k, m in pairs])
        design.append(np.array(columns).T)
        seen.append([matrix[k, m] for k, m in pairs])
        offset.append([(to_row @ corner @ to_row.T)[k, m] for k, m in pairs])
        variances.append([sigma**2 if k == m else sigma**2 / 2 for k, m in pairs])
    return np.vstack(design), np.concatenate(seen), np.concatenate(variances), np.concatenate(offset)


def least_squares(rounds: Rounds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and covariance (divisor n - 1) by one vectorised least squares, and its unknowns' covariance."""
    p, n = len(rounds.transform), rounds.n_rows
    design, seen, variances, offset = design_of(rounds)
    root = 1 / np.sqrt(variances)
    size = np.linalg.norm(design * root[:, None], axis=0)
    whitened = design * root[:, None] / size
    covariance = np.linalg.inv(whitened.T @ whitened) / np.outer(size, size)
    unknowns = np.linalg.lstsq(whitened, (seen - offset) * root, rcond=None)[0] / size
    sums, place = np.zeros((p + 1, p + 1)), {}
    pairs = [(i, j) for i, j in itertools.combinations_with_replacement(range(p + 1), 2) if (i, j) != (p, p)]
    for index, (i, j) in enumerate(pairs):
        sums[i, j] = sums[j, i] = unknowns[index]
        place[i, j] = index
    mean = sums[:p, p] / n
    known = [place[i, p] for i in range(p)]
    second = sums[:p, :p] / n - np.outer(mean, mean) + covariance[np.ix_(known, known)] / n**2
    return mean, second * n / (n - 1), covariance


def test_two_rounds_are_combined_by_generalised_least_squares() -> None:
    """Mean and covariance are those of a brute-force least squares over all published entries at once."""
    for seed in range(5):
        rounds = rounds_of(seed)
        mean, released = combined(rounds)
        expected_mean, expected, _ = least_squares(rounds)
        deviations = np.sqrt(np.diagonal(expected))
        np.testing.assert_allclose((mean - expected_mean) / deviations, 0.0, atol=1e-8)
        np.testing.assert_allclose(
            released.debiased / np.outer(deviations, deviations), expected / np.outer(deviations, deviations), atol=1e-7
        )


def gradients(rounds: Rounds, mean: np.ndarray, forms: np.ndarray) -> np.ndarray:
    """Return the derivatives of all forms b_i' C b_j by the unknowns, shape (q, q, unknowns)."""
    p, n = len(rounds.transform), rounds.n_rows
    pairs = [(i, j) for i, j in itertools.combinations_with_replacement(range(p + 1), 2) if (i, j) != (p, p)]
    moved = []
    for i, j in pairs:
        unit = np.zeros((p + 1, p + 1))
        unit[i, j] = unit[j, i] = 1.0
        shift = unit[:p, p] / n
        change = unit[:p, :p] / n - np.outer(mean, shift) - np.outer(shift, mean)
        moved.append(forms @ change @ forms.T)
    return np.moveaxis(np.array(moved), 0, -1)


def brute_force_errors(rounds: Rounds, forms: np.ndarray) -> FormErrors:
    """Return the first-order errors of the forms from the covariance of the unknowns."""
    mean, _, covariance = least_squares(rounds)
    own = gradients(rounds, mean, forms)
    diagonal = np.einsum("iik->ik", own)
    total = diagonal[:, None] + diagonal[None]
    return FormErrors(
        np.einsum("ijk,kl,ijl->ij", own, covariance, own),
        np.einsum("ijk,kl,ijl->ij", own, covariance, total),
        np.einsum("ijk,kl,ijl->ij", total, covariance, total) / 4.0,
    )


def test_the_law_of_the_noise_is_that_of_the_least_squares() -> None:
    """All errors of forms are those that the brute-force least squares propagates; the exact corner is no noise."""
    for seed in range(5):
        rounds = rounds_of(seed)
        forms = FORMS / rounds.scales[0]
        pooled = combine_sources(NAMES, [combined(rounds)[1]])
        stated, expected = mechanism_errors(pooled, forms), brute_force_errors(rounds, forms)
        for name in ("products", "crossed", "squares"):
            size = np.sqrt(expected.products * expected.squares)
            np.testing.assert_allclose(
                getattr(stated, name) / size, getattr(expected, name) / size, rtol=1e-6, atol=1e-7
            )


@pytest.mark.slow
def test_combined_entries_vary_as_stated() -> None:
    """Over 4000 draws of the published noise the mean is the clean covariance, and all errors are those of the law."""
    rounds = rounds_of(3, mu=3.0)
    rng, p = np.random.default_rng(8), 4
    draws = []
    for _ in range(4000):
        noisy = []
        for matrix, sigma in zip(rounds.matrices, rounds.sigmas, strict=True):
            noise = np.triu(rng.normal(0, sigma / np.sqrt(2), (p + 1, p + 1)), 1)
            noise += noise.T + np.diag(rng.normal(0, sigma, p + 1))
            noise[p, p] = 0.0
            noisy.append(matrix + noise)
        draws.append(combined(replace(rounds, matrices=tuple(noisy)))[1].debiased)
    forms = FORMS / rounds.scales[0]
    clean = least_squares(rounds)
    found = forms @ (np.array(draws) - clean[1] + clean_bias(rounds)) @ forms.T
    stated = mechanism_errors(combine_sources(NAMES, [combined(rounds)[1]]), forms)

    diagonals = np.diagonal(found, axis1=1, axis2=2)
    totals = diagonals[:, :, None] + diagonals[:, None, :]
    centred = found - found.mean(axis=0)
    assert (np.abs(found.mean(axis=0)) < 4.5 * np.sqrt(stated.products / len(draws))).all()
    np.testing.assert_allclose(centred.var(axis=0), stated.products, rtol=0.12)
    np.testing.assert_allclose((totals / 2.0).var(axis=0), stated.squares, rtol=0.12)
    crossed, size = (centred * (totals - totals.mean(axis=0))).mean(axis=0), np.sqrt(stated.products * stated.squares)
    np.testing.assert_allclose(crossed / size, stated.crossed / size, atol=0.16)
    assert np.abs(centred.var(axis=0) / (1.3 * stated.products) - 1.0).min() > 0.12  # it could have failed


def clean_bias(rounds: Rounds) -> np.ndarray:
    """Return what is added to the covariance for the mean's noise: here the matrices count as clean."""
    p, n = len(rounds.transform), rounds.n_rows
    covariance = least_squares(rounds)[2]
    known = [
        [(i, j) for i, j in itertools.combinations_with_replacement(range(p + 1), 2)].index((i, p)) for i in range(p)
    ]
    return covariance[np.ix_(known, known)] / n**2 * n / (n - 1)


def law(rng: np.random.Generator, p: int, d: int) -> TwoRounds:
    """Return a law with variances over twelve orders of magnitude."""
    stretch = np.geomspace(0.03, 30.0, d)
    variances = 1.0 / (1.0 + np.outer(stretch, stretch) ** 2)
    return TwoRounds.from_variances(rng.normal(size=(p, d)), variances, rng.normal(size=d))


def test_the_low_rank_of_the_variances_costs_no_accuracy() -> None:
    """Errors of forms agree to eight digits with the sum over all pairs of entries, and few terms are needed."""
    rng = np.random.default_rng(1)
    p, d = 30, 150
    noise, forms = law(rng, p, d), rng.normal(size=(6, p))
    beta, v, w = forms @ noise.basis, noise.constant, noise.variances
    squares = np.einsum("ik,kl,jl->ij", beta**2, w, beta**2)
    mixed = np.einsum("ik,jk,kl,il,jl->ij", beta, beta, w, beta, beta)
    known = 2.0 * np.einsum("ik,k,kl,l,jl->ij", beta, v, w, v, beta) ** 2 / np.einsum("k,kl,l->", v**2, w, v**2)
    expected = squares + mixed - known

    found = noise.form_errors(np.eye(6), forms)(slice(None)).products
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert len(noise.weights) < 40
    entries = np.einsum("ik,kl,jl->ij", noise.basis**2, w, noise.basis**2)
    entries += np.einsum("ik,jk,kl,il,jl->ij", *[noise.basis] * 2, w, *[noise.basis] * 2, optimize=True)
    entries -= (
        2.0
        * np.einsum("ik,k,kl,l,jl->ij", noise.basis, v, w, v, noise.basis) ** 2
        / np.einsum("k,kl,l->", v**2, w, v**2)
    )
    np.testing.assert_allclose(noise.entry_variances(np.ones(p), None), entries, rtol=1e-8)


def test_all_closed_forms_agree() -> None:
    """Entries, variances of variances and sums over pairs are those of the forms; some columns are as if alone."""
    rng = np.random.default_rng(2)
    p = 12
    covariance = np.cov(values(rng, 60, p).T)
    noise = law(rng, p, p + 1)
    source = ReleasedCovariance(60, covariance, noise, kurtosis=1.7)
    names = tuple(f"x{index}" for index in range(p))
    pooled = combine_sources(names, [source])
    units = np.outer(pooled.deviations, pooled.deviations) ** 2
    correlation = np.clip(pooled.correlation, -1, 1)

    for found, expected in (
        (entry_variances(pooled, correlation), form_variances(pooled, np.eye(p))),
        (mechanism_entry_variances(pooled), mechanism_errors(pooled, np.eye(p)).products),
    ):
        np.testing.assert_allclose(found * units, expected, rtol=1e-9)
    np.testing.assert_allclose(
        unexplained_variances(pooled), mechanism_errors(pooled, np.eye(p)).products.diagonal(), rtol=1e-9
    )
    theta = np.linalg.inv(covariance + 0.1 * np.diag(np.diagonal(covariance)))
    scale, upper = np.outer(theta.diagonal(), theta.diagonal()), np.triu_indices(p, 1)
    at_model = replace(pooled, covariance=np.linalg.inv(theta))
    total = (form_variances(at_model, theta) / scale)[upper].sum()
    assert sum_over_pairs(pooled, theta)[1] == pytest.approx(total, rel=1e-9)

    kept = np.array([7, 2, 3])
    few = keep_columns(pooled, kept)
    forms = rng.normal(size=(4, 3))
    wide = np.zeros((4, p))
    wide[:, kept] = forms
    np.testing.assert_allclose(
        mechanism_errors(few, forms).products, mechanism_errors(pooled, wide).products, rtol=1e-12
    )


def test_kurtosis_scales_the_sampling_error_alone() -> None:
    """Heavier tails raise the sampling part by their factor, once for releases of the same rows, not the noise's."""
    released = combined(rounds_of())[1]
    plain, heavy = (replace(released, kurtosis=factor) for factor in (1.0, 3.0))
    n = released.n_rows
    one, other = combine_sources(NAMES, [plain]), combine_sources(NAMES, [heavy])
    assert (one.sampling_factor, other.sampling_factor) == (1 / (n - 1), 3 / (n - 1))
    np.testing.assert_array_equal(
        mechanism_errors(one, np.eye(4)).products, mechanism_errors(other, np.eye(4)).products
    )
    assert effective_rows(other) < effective_rows(one)

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
    assert isinstance(plain, CovarianceSource)
    assert isinstance(turned, CovarianceSource)
    assert turned.columns == tuple(NAMES[index] for index in order)
    np.testing.assert_allclose(turned.mean, plain.mean[order], rtol=1e-9)
    scale = np.sqrt(np.diagonal(plain.released.debiased))
    found, expected = turned.released.debiased, plain.released.debiased[np.ix_(order, order)]
    np.testing.assert_allclose(
        found / np.outer(scale[order], scale[order]), expected / np.outer(scale[order], scale[order]), atol=1e-9
    )
    assert turned.released.kurtosis == plain.released.kurtosis
    laws = [each.released.known_noise.variances_of_variances() for each in (plain, turned)]
    np.testing.assert_allclose(laws[1], laws[0][order], rtol=1e-7)


def test_two_rounds_weigh_more_than_one_of_the_same_strength() -> None:
    """Pooled as releases of the same rows, the sharper one gets the larger weight."""
    sharp, blurred = combined(rounds_of(0, 4.0))[1], combined(rounds_of(0, 1.0))[1]
    pooled = pool_sources(NAMES, [sharp, blurred], same_rows=True)
    assert pooled.weights[0] > 0.8


def test_what_cannot_be_computed_is_refused() -> None:
    """One row has no covariance, and units so far apart that numbers overflow are named."""
    rounds = rounds_of()
    with pytest.raises(EstimationError, match="at least two rows"):
        combined(replace(rounds, n_rows=1))
    zero = np.zeros(4)
    far = replace(rounds, centers=(zero, zero), scales=(rounds.scales[0] * 1e160, rounds.scales[1] * 1e-160))
    with pytest.raises(EstimationError, match="too far apart"):
        combined(far)


def test_rounding_makes_no_variance_negative() -> None:
    """Where a manifest puts centers so far away that rounding is all that is left, errors remain numbers."""
    rounds = rounds_of()
    far = replace(rounds, centers=(rounds.centers[0], rounds.centers[1] + 1e14 * rounds.scales[0]))
    noise = combined(far)[1].known_noise
    scales = 1.0 / rounds.scales[0]
    assert (noise.variances_of_variances() >= 0.0).all()
    errors = noise.form_errors(np.eye(4), FORMS * scales)(slice(None))
    assert (errors.products >= 0.0).all()
    assert (errors.squares >= 0.0).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_kurtosis_is_that_of_elliptical_rows(share: float) -> None:
    """Without noise to speak of, and radii that shorten nothing, the factor is the one of the rows' distribution."""
    rng = np.random.default_rng(11)
    n, p = 200_000, 3
    squares = np.where(rng.random(n) < share, 4.0, 0.5)  # by which rows of that share are longer
    rows = rng.normal(size=(n, p)) * np.sqrt(squares)[:, None] @ rng.normal(size=(p, p))
    rounds = release_in_two_rounds(rows, 1000.0, rng, clip=1000.0, radius=10.0)
    release = manifest_of(rounds, NAMES[:p])
    assert release.second_moments is not None

    factor = (share * 16.0 + (1 - share) * 0.25) / (share * 4.0 + (1 - share) * 0.5) ** 2
    found = kurtosis_factor(release.second_moments, rounds.matrices[1], n)
    assert found == pytest.approx(factor, rel=0.02)
