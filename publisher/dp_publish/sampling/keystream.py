"""Uniform random bits: the output of AES-256 in counter mode under a key from the operating system.

A `SecureKeystream` draws key and counter from `os.urandom`, never twice the same, and cannot be seeded. It changes both
after every GiB. Within 2^26 blocks under one key, a permutation is told from a random function with advantage below
2^-77, so the bits may be taken for uniform ones. A forked child changes both before its first bit, so that it never
repeats its parent's. Python says when it forks, as process numbers may be equal (in a new namespace, the child can have
its parent's). `insecure_keystream` is reproducible, for tests and experiments.

A keystream belongs to one thread: give every thread its own.

References
----------
NIST SP 800-38A (2001), section 6.5. Bellare, Desai, Jokipii & Rogaway (1997), A concrete security treatment of
symmetric encryption, FOCS.
"""

import hashlib
import os
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

_KEY_BYTES, _COUNTER_BYTES = 32, 16
_BYTES_PER_KEY = 1 << 30
_ZEROS = memoryview(bytes(1 << 17))
_forks = [0]  # how many lie between the first process of this program and this one


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Keystream(Protocol):
    """A source of uniform random bits."""

    def fill(self, buffer: NDArray[Any]) -> None:
        """Overwrite a C-contiguous array of integers with random bits."""


def uniform_bits(n_bits: int, rng: Keystream) -> int:
    """Return a uniform integer of so many bits."""
    return uniform_integers(1, n_bits, rng)[0]


def uniform_integers(n: int, n_bits: int, rng: Keystream) -> list[int]:
    """Return n uniform integers of so many bits, the same as one after the other."""
    words = np.empty((n, -(-n_bits // 64)), dtype=np.uint64)
    rng.fill(words)
    return [int.from_bytes(row.tobytes(), "little") >> -n_bits % 64 for row in words]


class SecureKeystream:
    """Random bits fit for a release, from AES-256-CTR under a key that nobody knows.

    Use an instance in one thread at a time. It survives a fork: parent and child go on with different bits.
    """

    def __init__(self) -> None:
        self._born = _forks[0]
        self._left = 0
        self._encryptor: CipherContext

    def fill(self, buffer: NDArray[Any]) -> None:
        """Overwrite a C-contiguous array of integers with random bits."""
        if not buffer.size:
            return
        view = buffer.data.cast("B")
        for start in range(0, len(view), len(_ZEROS)):
            part = view[start : start + len(_ZEROS)]
            if self._left < len(part) or self._born != _forks[0]:
                self._renew()
            self._left -= len(part)
            self._encryptor.update_into(_ZEROS[: len(part)], part)

    def _renew(self) -> None:
        key, counter = self._key_and_counter()
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
        self._left = _BYTES_PER_KEY
        self._born = _forks[0]

    def _key_and_counter(self) -> tuple[bytes, bytes]:
        return os.urandom(_KEY_BYTES), os.urandom(_COUNTER_BYTES)


def insecure_keystream(seed: int) -> Keystream:
    """Return a keystream that anybody who knows the seed can repeat: for tests and experiments, never for a release.

    Parameters
    ----------
    seed : int
        The same seed gives the same bits.

    Returns
    -------
    Keystream
        A stream with the methods of `SecureKeystream`.
    """
    return _InsecureKeystream(seed)


class _InsecureKeystream(SecureKeystream):
    """AES-256-CTR under keys derived from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._n_keys = 0

    def _key_and_counter(self) -> tuple[bytes, bytes]:
        self._n_keys += 1
        key = hashlib.sha256(f"insecure {self._seed} {self._n_keys}".encode()).digest()
        return key, bytes(_COUNTER_BYTES)
