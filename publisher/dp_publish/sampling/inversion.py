"""Turn random bits into table entries: inversion of a tabulated distribution, 32 bits to a value.

Of each 32-bit word, the lowest bit is the sign and the others are the head of a uniform number u. Its leading bits
select a cell of the table's guide. Where no threshold begins with the cell's bits, the cell itself is the answer; else
the head is compared with those of the cell's thresholds; and in case of a tie, which happens about once in a million
values, two 64-bit words more make u as long as the thresholds are. The comparison is thus always between the full 159
bits, all of them integers, and only as many bits are drawn as it needs.

The words are processed in pieces that stay, with the table, in a core's cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.kernels import njit
from dp_publish.sampling.keystream import Keystream
from dp_publish.sampling.probability_tables import ProbabilityTable

CHUNK = 1 << 16  # values at a time: 256 kB of random words
_N_SPARE = 64  # words to break ties


def fill_symmetric(out: NDArray[np.int64], table: ProbabilityTable, rng: Keystream) -> None:
    """Overwrite `out` with k or -k, where the magnitude k is drawn from the table and both signs are equally likely."""
    words = np.empty(min(CHUNK, out.size), dtype=np.uint32)
    spare = np.empty(_N_SPARE, dtype=np.uint64)
    for start in range(0, out.size, CHUNK):
        part = out[start : start + CHUNK]
        rng.fill(words[: part.size])
        done = 0
        while done < part.size:
            rng.fill(spare)
            done = _invert(words, spare, table.head, table.mid, table.low, table.guide, table.shift, part, done)


@njit(nogil=True)
def _invert(words, spare, head, mid, low, guide, shift, out, start):  # type: ignore[no-untyped-def]
    """Overwrite out[start:], and return its size, or where the spare words ran out."""
    n_spent = 0
    for i in range(start, out.size):
        word = words[i]
        value = np.int64(guide[word >> shift])

        if value < 0:  # thresholds begin with the cell's bits: compare 31 bits of u, and all of them in case of a tie
            value = ~value
            u = word >> np.uint32(1)
            while value < head.size and head[value] < u:
                value += 1
            if value < head.size and head[value] == u:
                if n_spent + 2 > spare.size:
                    return i
                u_mid, u_low = spare[n_spent], spare[n_spent + 1]
                n_spent += 2
                while (
                    value < head.size
                    and head[value] == u
                    and (mid[value] < u_mid or (mid[value] == u_mid and low[value] <= u_low))
                ):
                    value += 1

        sign = -np.int64(word & np.uint32(1))
        out[i] = (value ^ sign) - sign
    return out.size
