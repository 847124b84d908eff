"""An exact sampler of discrete Laplace noise, from a cryptographic generator.

The discrete Laplace distribution gives the integer k a probability proportional to exp(-|k| / scale). It is that of the
difference of two geometric variables G with P(G = k) proportional to q^k, q = exp(-1/scale). The binary digits of such
a variable are independent: digit i is 1 with probability

    1 / (1 + exp(2^i / scale)).

So a value is made of biased coins. Each compares 64 uniform bits with the first 64 of its 192-bit probability. A tie,
which has a chance of 2^-64, is settled with 128 bits more. Digits whose probability is below 2^-192 are left at 0. With
at most 61 digits to each of the two variables, the total variation distance from the definition is below 2^-184 per
value. Here scale is the exact rational number that its float64 stands for. The time does not depend on the values. Who
needs less than 2^-184 asks for more than 192 bits.

References
----------
Steutel & Thorin (1979), on the digits of geometric variables. Ghosh, Roughgarden & Sundararajan (2012), Universally
utility-maximizing privacy mechanisms, SIAM J. Comput. 41(6). Canonne, Kamath & Steinke (2020), arXiv 2004.00010.
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dp_bundle.base.arrays import Integers
from dp_bundle.manifest.noise import check_laplace_scale
from dp_publish.sampling.keystream import Keystream, SecureKeystream

_BITS = 192
_WORD = 64
_CHUNK = 1 << 14  # values at a time
_SPARE_DIGITS = 32


def sample_discrete_laplace(
    scale: float, size: int | tuple[int, ...], rng: Keystream | None = None, *, bits: int = _BITS
) -> Integers:
    """Draw integers k with probability proportional to exp(-|k| / scale).

    Parameters
    ----------
    scale : float
        From 0.05 to 2^50: a query of L1 sensitivity D, in steps, is (D / scale)-differentially private with this noise.
    size : int or tuple of int
        The shape of the result.
    rng : Keystream, optional
        Where the random bits come from; a new `SecureKeystream` unless given. To be used by one thread at a time.
    bits : int
        Of the digits' probabilities, a multiple of 64 from 192 to 4096: the total variation distance is below
        2^(8 - bits) per value.

    Returns
    -------
    ndarray of int64
        Independent values.

    Raises
    ------
    ParameterError
        `scale` is outside the range.
    """
    probabilities = _digit_probabilities(check_laplace_scale(scale), bits)
    rng = SecureKeystream() if rng is None else rng
    return _geometric(probabilities, bits, size, rng) - _geometric(probabilities, bits, size, rng)


def _geometric(probabilities: tuple[int, ...], bits: int, size: int | tuple[int, ...], rng: Keystream) -> Integers:
    values = np.empty(size, dtype=np.int64)
    flat = values.reshape(-1)
    heads = np.array([[probability >> (bits - _WORD)] for probability in probabilities], dtype=np.uint64)
    places = np.arange(len(heads))[:, None]
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        words = np.empty((len(heads), part.size), dtype=np.uint64)
        rng.fill(words)
        ones = words < heads
        for digit, index in np.argwhere(words == heads):
            ones[digit, index] = _is_below(probabilities[digit], bits - _WORD, rng)
        part[:] = (ones.astype(np.int64) << places).sum(axis=0)
    return values


def _is_below(probability: int, n_bits: int, rng: Keystream) -> bool:
    """Return whether further uniform bits are below the probability's last ones, so many."""
    words = np.empty(n_bits // _WORD, dtype=np.uint64)
    rng.fill(words)
    further = 0
    for word in words.tolist():
        further = (further << _WORD) | word
    return further < probability & ((1 << n_bits) - 1)


@lru_cache(16)
def _digit_probabilities(scale: float, bits: int) -> tuple[int, ...]:
    """Return the probabilities of the digits, in units of 2^-bits, from the lowest digit to the last that matters."""
    probabilities: list[int] = []
    with localcontext(Context(prec=math.ceil(bits * math.log10(2)) + _SPARE_DIGITS)):
        rate = 1 / Fraction(scale)
        while not probabilities or probabilities[-1]:
            exponent = rate * 2 ** len(probabilities)
            odds = (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
            probabilities.append(int((1 << bits) / (1 + odds)))
    return tuple(probabilities[:-1] or probabilities)
