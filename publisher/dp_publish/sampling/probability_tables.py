"""Tables of exact cumulative probabilities, made with integers only.

A table holds, for magnitudes k = 0, 1, ..., the thresholds ``T_k = floor(2^159 P(magnitude <= k))``; a uniform number
of 159 bits selects the magnitude ``#{k: T_k <= u}``. Thresholds are split into 31 + 64 + 64 bits, as mostly the first
31 decide. A guide over the leading bits of u says which magnitude that is, or where to begin.

The probabilities come from fixed-point numbers of 224 bits. Let v = 1/sigma^2, where sigma is the exact rational that
its float64 stands for. Then ``w_k = exp(-v k^2 / 2)`` obeys ``w_{k+1} = w_k r_k`` and ``r_{k+1} = r_k exp(-v)``. There
is only one exponential to take, which `decimal` rounds correctly. A step of the rounded Gaussian has the mass

    w_k I_k,   I_k = 2 int_0^{1/2} cosh(v k t) exp(-v t^2 / 2) dt = sum_m c_m k^(2m),

a series of positive terms.

Error, for sigma <= 512, where there are n < 2^13 magnitudes: all factors are at most 1, so r_k is off by at most 4k + 1
units of 2^-224, w_k by 2k^2, the series by another 2^6, and all n masses together by less than 2^41, against a sum of
at least 1. The series is cut where its terms are below 2^-200, the tail where what is left is below 2^-170. Each T_k is
therefore within 2^-158 of the true probability (2^-159 of it by rounding down). The total variation is at most the sum
of these errors, and so below 2^13 2^-158 = 2^-145.

**Inversion** turns random bits into table entries, 32 bits to a value.

Of each 32-bit word, the lowest bit is the sign and the others are the head of a uniform number u. Its leading bits
select a cell of the table's guide. Where no threshold begins with the cell's bits, the cell itself is the answer. Else
the head is compared with those of the cell's thresholds. In case of a tie, which happens about once in a million
values, two 64-bit words more make u as long as the thresholds are. The comparison is thus always between the full 159
bits, all of them integers, and only as many bits are drawn as it needs.

The words are processed in pieces that stay, with the table, in a core's cache.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Integers
from dp_publish.sampling.keystream import Keystream

_HEAD_BITS = 31
_THRESHOLD_BITS = _HEAD_BITS + 128
_BITS = 224  # of the fixed-point numbers
_CUTOFF = 1 << (_BITS - 176)
_SERIES_BITS = 200
_CONTEXT = Context(prec=90)  # digits: 299 bits
_TINY = Decimal(10) ** -90
_SMOOTH = 16.0  # from this sigma on the series is short
_KEPT = 256  # tables; 0.3 MB each at most
CHUNK = 1 << 16  # values at a time: 256 kB of random words
_N_SPARE = 64  # words to break ties


@dataclass(frozen=True, eq=False)
class ProbabilityTable:
    """Thresholds in three parts, and their guide.

    Attributes
    ----------
    head, mid, low : ndarray of uint32, uint64, uint64
        The leading 31, the next 64 and the last 64 bits of every threshold, ascending.
    guide : ndarray of int16
        For every value of the leading bits of u, the magnitude k if no threshold begins with them. Otherwise ~k, where
        k is the first magnitude to consider.
    shift : uint32
        How far to shift a 32-bit word, of which the lowest bit is not part of u, to index the guide.
    """

    head: NDArray[np.uint32]
    mid: NDArray[np.uint64]
    low: NDArray[np.uint64]
    guide: NDArray[np.int16]
    shift: np.uint32


@lru_cache(_KEPT)
def discrete_table(sigma: float) -> ProbabilityTable:
    """Return the table of the magnitudes of the discrete Gaussian."""
    first, *others = _gaussian_weights(_inverse_variance(sigma))
    return _table([first, *(2 * weight for weight in others)])


@lru_cache(_KEPT)
def rounded_table(sigma: float) -> ProbabilityTable:
    """Return the table of the magnitudes of the rounded Gaussian.

    Below sigma = 16 the steps are divided into an odd number of finer ones, whose table is thinned out.
    """
    division = 1 if sigma >= _SMOOTH else 2 * math.ceil(_SMOOTH / sigma / 2) + 1
    inverse_variance = _inverse_variance(sigma) / division**2
    weights = _gaussian_weights(inverse_variance)
    masses = _step_masses(weights, inverse_variance)
    masses[1:] = [2 * mass for mass in masses[1:]]
    half = division // 2
    others = [sum(masses[start : start + division]) for start in range(half + 1, len(masses), division)]
    return _table([sum(masses[: half + 1]), *others])


@lru_cache(_KEPT)
def block_table(sigma: float) -> ProbabilityTable:
    """Return the table of k = 1, 2, ... with probabilities proportional to exp(-(k - 1)^2 / (2 sigma^2))."""
    return _table([0, *_gaussian_weights(_inverse_variance(sigma))])


def _inverse_variance(sigma: float) -> Fraction:
    return 1 / Fraction(sigma) ** 2


def _gaussian_weights(inverse_variance: Fraction) -> list[int]:
    """Return exp(-v k^2 / 2) for k = 0, 1, ..., in units of 2^-224, up to the cut-off."""
    with localcontext(_CONTEXT):
        ratio = _fixed_point((-_decimal(inverse_variance) / 2).exp())
    factor = ratio * ratio >> _BITS
    weights, weight = [], 1 << _BITS
    while weight > _CUTOFF:
        weights.append(weight)
        weight = weight * ratio >> _BITS
        ratio = ratio * factor >> _BITS
    return weights


def _step_masses(weights: list[int], inverse_variance: Fraction) -> list[int]:
    """Return w_k I_k, the masses of the steps around k; the series by Horner's rule in k^2 / 2^shift < 1."""
    shift = 2 * len(weights).bit_length()
    last, *others = _series(inverse_variance, shift)[::-1]
    masses = []
    for k, weight in enumerate(weights):
        square = k * k
        value = last
        for coefficient in others:
            value = coefficient + (value * square >> shift)
        masses.append(weight * value >> _BITS)
    return masses


def _series(inverse_variance: Fraction, shift: int) -> list[int]:
    """Return 2^(shift m) c_m, c_m = v^(2m) / (2m)! 2 int_0^{1/2} t^(2m) exp(-v t^2 / 2) dt, in units of 2^-224.

    The last m is the first where w_k c_m k^(2m) <= (v m / (2e))^m / (2m)!, its maximum over k, is below 2^-200.
    """
    coefficients, m, log2_bound = [], 0, 0.0
    with localcontext(_CONTEXT):
        v = _decimal(inverse_variance)
        while log2_bound > -_SERIES_BITS:
            integral, term, i = Decimal(0), Decimal(1), 0
            while abs(term) > _TINY:
                integral += term / (2 * m + 2 * i + 1)
                i += 1
                term *= -v / (8 * i)
            coefficients.append(_fixed_point((v / 2) ** (2 * m) / math.factorial(2 * m) * integral * 2 ** (shift * m)))
            m += 1
            log2_bound = m * math.log2(float(v) * m / (2 * math.e)) - math.lgamma(2 * m + 1) / math.log(2)
    return coefficients


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _fixed_point(number: Decimal) -> int:
    return int(number * (1 << _BITS))


def _table(weights: list[int]) -> ProbabilityTable:
    """Return the table of magnitudes whose probabilities are proportional to `weights`."""
    sums = list(accumulate(weights))
    total = sums.pop()
    thresholds = b"".join([((part << _THRESHOLD_BITS) // total).to_bytes(20, "big") for part in sums])
    parts = np.frombuffer(thresholds, dtype=[("head", ">u4"), ("mid", ">u8"), ("low", ">u8")])
    head = parts["head"].astype(np.uint32)
    guide_bits = min(max(len(weights).bit_length() + 4, 12), 16)
    cells = (head >> np.uint32(_HEAD_BITS - guide_bits)).astype(np.int64)
    counts = np.bincount(cells, minlength=1 << guide_bits)
    first = np.cumsum(counts) - counts
    guide = np.where(counts > 0, ~first, first).astype(np.int16)
    shift = np.uint32(_HEAD_BITS + 1 - guide_bits)
    return ProbabilityTable(head, parts["mid"].astype(np.uint64), parts["low"].astype(np.uint64), guide, shift)


def fill_symmetric(out: Integers, table: ProbabilityTable, rng: Keystream) -> None:
    """Overwrite `out` with k or -k, where the magnitude k is drawn from the table and both signs are equally likely."""
    from dp_publish.sampling._kernels import invert

    words = np.empty(min(CHUNK, out.size), dtype=np.uint32)
    spare = np.empty(_N_SPARE, dtype=np.uint64)
    for start in range(0, out.size, CHUNK):
        part = out[start : start + CHUNK]
        rng.fill(words[: part.size])
        done = 0
        while done < part.size:
            rng.fill(spare)
            done = invert(words, spare, table.head, table.mid, table.low, table.guide, table.shift, part, done)
