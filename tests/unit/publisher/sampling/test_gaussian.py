"""The samplers bit by bit: values against the words they were made of, ties, close decisions, and refusals."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.publisher.sampling.test_probability_tables import thresholds_of

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.noise import discrete_laplace_variance
from dp_publish.rows.noise import sample_replacements
from dp_publish.sampling.gaussian import accept_exactly, sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream, insecure_keystream
from dp_publish.sampling.laplace import _digit_probabilities, sample_discrete_laplace
from dp_publish.sampling.probability_tables import ProbabilityTable, block_table, discrete_table, rounded_table

SAMPLERS = [sample_rounded_gaussian, sample_discrete_gaussian]
WITH_TABLES = [(sample_rounded_gaussian, rounded_table), (sample_discrete_gaussian, discrete_table)]


class ScriptedKeystream:
    """A keystream that returns the given arrays, one per request."""

    def __init__(self, script: Iterable[NDArray[Any]]) -> None:
        self._script = iter(script)

    def fill(self, buffer: NDArray[Any]) -> None:
        """Copy the next array, which may be shorter than the buffer."""
        words = next(self._script)
        assert words.dtype == buffer.dtype
        buffer[: words.size] = words


class RecordingKeystream:
    """A keystream that keeps a copy of everything it gave."""

    def __init__(self, source: Keystream) -> None:
        self._source = source
        self.given: list[NDArray[Any]] = []

    def fill(self, buffer: NDArray[Any]) -> None:
        """Fill the buffer from the source."""
        self._source.fill(buffer)
        self.given.append(buffer.copy())


@pytest.mark.parametrize("sigma", [1.0, 30.0, 200.0])
@pytest.mark.parametrize(("sample", "make_table"), WITH_TABLES)
def test_a_tie_is_resolved_by_all_bits(
    sample: Callable[..., NDArray[np.int64]], make_table: Callable[[float], ProbabilityTable], sigma: float
) -> None:
    """A number equal to threshold k gives k + 1, the one just below gives at most k, with either sign."""
    table = make_table(sigma)
    for k in range(min(table.head.size, int(4 * sigma))):
        head, mid, low = int(table.head[k]), int(table.mid[k]), int(table.low[k])
        below = ((mid << 64) | low) - 1
        words = np.array([2 * head, 2 * head + 1, 2 * head, 2 * head + 1], dtype=np.uint32)
        extension = np.array([mid, low] * 2 + [below >> 64, below & (2**64 - 1)] * 2, dtype=np.uint64)
        values = sample(sigma, 4, ScriptedKeystream([words, extension]))
        assert values.tolist() == [k + 1, -k - 1, k, -k]


def test_ties_in_the_tail_find_the_right_magnitude() -> None:
    """Where many thresholds share their first 31 bits, the other 128 choose among them."""
    table = discrete_table(20.0)
    thresholds = thresholds_of(table)
    last = table.head.size - 1
    assert np.count_nonzero(table.head == table.head[last]) > 150
    for k in range(last - 150, last + 1):
        words = np.array([2 * int(table.head[k])], dtype=np.uint32)
        extension = np.array([table.mid[k], table.low[k]], dtype=np.uint64)
        value = sample_discrete_gaussian(20.0, 1, ScriptedKeystream([words, extension]))
        assert value.tolist() == [bisect_right(thresholds, thresholds[k])]


def test_many_ties_draw_as_many_words() -> None:
    """When the words set aside for ties run out, more are drawn and no value is lost."""
    table = discrete_table(3.0)
    words = np.full(100, 2 * int(table.head[2]), dtype=np.uint32)
    extension = np.array([table.mid[2], table.low[2]] * 32, dtype=np.uint64)
    values = sample_discrete_gaussian(3.0, 100, ScriptedKeystream([words, *[extension] * 4]))
    assert values.tolist() == [3] * 100


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 30.0, 255.9])
@pytest.mark.parametrize(("sample", "make_table"), WITH_TABLES)
def test_values_are_those_of_plain_inversion(
    sample: Callable[..., NDArray[np.int64]], make_table: Callable[[float], ProbabilityTable], sigma: float
) -> None:
    """The guide and the compiled search return what a search through whole integers does."""
    stream = RecordingKeystream(insecure_keystream(1))
    values = sample(sigma, 50_000, stream)
    assert values.tolist() == _invert(stream.given, make_table(sigma))


def _invert(given: list[NDArray[Any]], table: ProbabilityTable) -> list[int]:
    thresholds = thresholds_of(table)
    words, spare = given[0].tolist(), iter(given[1].tolist())
    heads = set(table.head.tolist())
    values = []
    for word in words:
        u = (word >> 1) << 128
        if word >> 1 in heads:
            u |= (next(spare) << 64) | next(spare)
        magnitude = bisect_right(thresholds, u)
        values.append(-magnitude if word & 1 else magnitude)
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    "sigma", [1000.7, *(pytest.param(each, marks=pytest.mark.long) for each in (256.0, 512.0, 1e9))]
)
@pytest.mark.parametrize("discrete", [True, False])
def test_large_scales_accept_exactly_what_they_should(discrete: bool, sigma: float) -> None:
    """The compiled acceptance of 20,000 proposals agrees, one by one, with 80-digit exponentials."""
    stream = RecordingKeystream(insecure_keystream(2))
    sample = sample_discrete_gaussian if discrete else sample_rounded_gaussian
    values = sample(sigma, 20_000, stream)
    n_bits = math.frexp(sigma / 256)[1]
    table = block_table(math.ldexp(sigma, -n_bits))
    expected: list[int] = []
    given = iter(stream.given)
    for words, spare, offsets in zip(given, given, given, strict=True):
        size = min(words.size, 20_000 - len(expected))
        assert size == words.size == offsets.size
        blocks = _invert([words, spare], table)
        expected += _accepted(blocks, offsets.tolist(), sigma, n_bits, discrete)
    assert Counter(values.tolist()) == Counter(expected)


def _accepted(blocks: list[int], words: list[int], sigma: float, n_bits: int, discrete: bool) -> list[int]:
    accepted = []
    with mpmath.workdps(80):
        for block, word in zip(blocks, words, strict=True):
            bits = n_bits if discrete else 32
            t = mpmath.ldexp(word >> (64 - bits), n_bits - bits)
            edge = (abs(block) - 1) << n_bits
            magnitude = edge + t
            g = t * (2 * edge + t) / (2 * mpmath.mpf(sigma) ** 2)
            u = mpmath.ldexp(word & 0xFFFFFFFF, -32)
            bound = mpmath.exp(-g)
            assert abs(bound - u) > mpmath.ldexp(1, -31)  # so the bits not drawn do not matter, with this seed
            rounded = int(mpmath.floor(magnitude + mpmath.mpf(0.5)))
            if u < bound and not (discrete and rounded == 0 and block < 0):
                accepted.append(-rounded if block < 0 else rounded)
    return accepted


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_close_decisions_draw_bits_until_they_are_sure(discrete: bool, seed: int) -> None:
    """With U's first 32 bits equal to those of exp(-g), the further bits decide, as in 80-digit arithmetic."""
    sigma, n_bits, block = 1e6, 12, 300
    rng = np.random.default_rng(seed)
    t_bits = int(rng.integers(1 << 32))
    with mpmath.workdps(80):
        t = mpmath.ldexp(t_bits >> (20 if discrete else 0), 0 if discrete else -20)
        edge = (block - 1) << n_bits
        u_bits = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-t * (2 * edge + t) / (2 * mpmath.mpf(sigma) ** 2)), 32)))
        stream = RecordingKeystream(insecure_keystream(seed))
        decision = accept_exactly(block, (t_bits << 32) | u_bits, sigma, n_bits, stream, discrete=discrete)
        more = stream.given[0].tolist()
        assert len(stream.given) == 1
        u = mpmath.ldexp((u_bits << 64) + more[0], -96)
        if not discrete:
            t = mpmath.ldexp((t_bits << 64) + more[1], -84)
        assert decision == (u < mpmath.exp(-t * (2 * edge + t) / (2 * mpmath.mpf(sigma) ** 2)))


def test_undecided_proposals_are_settled_in_the_sampler() -> None:
    """What 32 bits cannot decide is accepted or rejected by further bits, and a rejected proposal replaced."""
    sigma, n_bits = 1024.0, 3
    table = block_table(128.0)
    thresholds = thresholds_of(table)
    block = 100
    word = 2 * ((thresholds[block - 1] >> 128) + 1)
    t = 5
    with mpmath.workdps(80):
        g = t * mpmath.mpf(2 * ((block - 1) << n_bits) + t) / (2 * mpmath.mpf(sigma) ** 2)
        u_bits = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-g), 32)))
    close = (t << 61) | u_bits
    heads = np.array([word, word, word], dtype=np.uint32)
    spare = np.zeros(64, dtype=np.uint64)
    proposals = np.array([close, 3 << 61, close], dtype=np.uint64)
    low, high = np.array([0, 0], dtype=np.uint64), np.array([2**64 - 1, 0], dtype=np.uint64)
    script = [heads, spare, proposals, high, low, heads[:1], spare, np.array([7 << 61], dtype=np.uint64)]
    first = (block - 1) << n_bits
    values = sample_discrete_gaussian(sigma, 3, ScriptedKeystream(script))
    assert values.tolist() == [first + 5, first + 3, first + 7]


@pytest.mark.parametrize("sigma", [0.049, 1.1e9, math.nan, "1"])
def test_sigma_outside_the_range_is_refused(sigma: Any) -> None:
    """Both samplers name their sigma when it is out of range or no number."""
    with pytest.raises(ParameterError, match="sigma"):
        sample_discrete_gaussian(sigma, 3)
    with pytest.raises(ParameterError, match="sigma_in_steps"):
        sample_rounded_gaussian(sigma, 3)


@pytest.mark.parametrize("sample", SAMPLERS)
@pytest.mark.parametrize("size", [(3, -2), 2.5, None, (1 << 40, 1 << 40)])
def test_a_size_that_is_none_is_refused(sample: Callable[..., NDArray[np.int64]], size: Any) -> None:
    """Negative, fractional and absurd sizes are refused before anything is drawn."""
    with pytest.raises(ParameterError, match="size"):
        sample(1.0, size)


@pytest.mark.parametrize("scale", [0.0, 0.01, 2.0**51, float("nan")])
def test_scale_out_of_range_is_refused(scale: float) -> None:
    """A scale that the sampler does not cover is an error of ours."""
    with pytest.raises(ParameterError, match="scale"):
        sample_discrete_laplace(scale, 3)


def test_more_bits_are_more_digits_of_the_same_probabilities() -> None:
    """Where the last bits decide nothing, the same random bits give the same values; far digits are added."""
    few, many = (_digit_probabilities(3.0, bits) for bits in (192, 1024))
    assert len(many) > len(few)
    assert all(abs((one >> 832) - other) <= 1 for one, other in zip(many, few, strict=False))
    values = sample_discrete_laplace(3.0, 100_000, insecure_keystream(4), bits=1024)
    assert values.var() == pytest.approx(discrete_laplace_variance(3.0), rel=0.05)


WORDS = 2**32


class Forged:
    """Words that were chosen, in this order."""

    def __init__(self, *words: int) -> None:
        self.words = [*words]

    def fill(self, buffer: NDArray[np.uint32]) -> None:
        """Hand out the next words."""
        buffer[:] = [self.words.pop(0) for _ in buffer]


def test_a_word_below_the_numerator_replaces() -> None:
    """Of all 2^32 words exactly `numerator` replace a level: those below it."""
    words = Forged(99, 100, 0, WORDS - 1, *[0, 1])
    places, levels = sample_replacements(4, 100, 4, words)
    assert places.tolist() == [0, 2]
    assert levels.tolist() == [0, 1]
    assert words.words == []


@pytest.mark.parametrize("n_levels", [2, 3, 5, 7, 12, 1000, 65_537, 2**20 + 7])
def test_every_level_has_as_many_words(n_levels: int) -> None:
    """The words that are taken are a multiple of the levels; the first one beyond is drawn again, and again."""
    last = max(word for word in range(WORDS - n_levels, WORDS) if (word + 1) % n_levels == 0)
    beyond = [word for word in (last + 1, WORDS - 1) if word < WORDS and word > last]
    words = Forged(0, 0, last, *(beyond[:1] or [5]), *([*beyond[1:], 5] if beyond else []))
    _, levels = sample_replacements(2, 1, n_levels, words)
    assert levels.tolist() == [n_levels - 1, 5 % n_levels]
    assert words.words == []
    assert Fraction(last + 1, n_levels).denominator == 1
