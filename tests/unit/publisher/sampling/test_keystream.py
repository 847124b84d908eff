"""The random bits: AES in counter mode as published, never repeated across instances, keys or forks."""

import os
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from dp_publish.sampling import keystream
from dp_publish.sampling.keystream import SecureKeystream, insecure_keystream

# NIST SP 800-38A (2001), appendix F.5.5, CTR-AES256.Encrypt: key, initial counter block, and the four output blocks
NIST_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
NIST_COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
NIST_OUTPUT = bytes.fromhex(
    "0bdf7df1591716335e9a8b15c860c5025a6e699d536119065433863c8f657b94"
    "1bc12c9c01610d5d0d8bd6a3378eca622956e1c8693536b1bee99c73a31576b6"
)


@pytest.fixture(autouse=True)
def repeatable_noise() -> None:
    """Leave the keystream as it is: it is what these tests are about."""


def _bytes(stream: keystream.Keystream, n: int) -> bytes:
    buffer = np.empty(n, dtype=np.uint8)
    stream.fill(buffer)
    return buffer.tobytes()


def _scripted_urandom(*answers: bytes) -> Callable[[int], bytes]:
    script = iter(answers)

    def urandom(n: int) -> bytes:
        answer = next(script)
        assert len(answer) == n
        return answer

    return urandom


def test_stream_is_aes_256_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the key and counter of NIST's example, the stream is NIST's output blocks, in requests of any length."""
    monkeypatch.setattr(keystream.os, "urandom", _scripted_urandom(NIST_KEY, NIST_COUNTER))
    stream = SecureKeystream()
    assert _bytes(stream, 5) + _bytes(stream, 43) + _bytes(stream, 16) == NIST_OUTPUT


def test_key_and_counter_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its share of bytes a key is never used again."""
    other = bytes(32)
    monkeypatch.setattr(
        keystream.os, "urandom", _scripted_urandom(NIST_KEY, NIST_COUNTER, other, NIST_COUNTER, NIST_KEY, bytes(16))
    )
    monkeypatch.setattr(keystream, "_BYTES_PER_KEY", 64)
    stream = SecureKeystream()
    assert _bytes(stream, 48) == NIST_OUTPUT[:48]
    second = _bytes(stream, 32)
    assert second not in NIST_OUTPUT
    assert _bytes(stream, 32) != second
    assert _bytes(stream, 1) != b""


def _bits_of_parent_and_child(stream: keystream.Keystream) -> tuple[bytes, bytes]:
    """Fork, and return 64 bytes that the parent draws from its stream, and 64 that the child draws."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forking beside threads, which the child does not touch
        child = os.fork()
    if child == 0:
        os.write(writing, _bytes(stream, 64))
        os._exit(0)
    os.close(writing)
    own = _bytes(stream, 64)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    assert len(theirs) == 64
    return own, theirs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("number", [None, 1])
def test_a_forked_child_does_not_repeat_its_parent(number: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parent and child draw different bits from the keystream that both hold, even if their process numbers are equal.

    They are where the child is the first process of a new namespace, as its parent is of its own.
    """
    if number is not None:
        monkeypatch.setattr(os, "getpid", lambda: number)
    stream = SecureKeystream()
    _bytes(stream, 10)
    own, theirs = _bits_of_parent_and_child(stream)
    assert not {own[i : i + 8] for i in range(57)} & {theirs[i : i + 8] for i in range(57)}


def test_long_requests_are_one_stream() -> None:
    """A request longer than the internal piece continues the counter and does not begin again."""
    n = 3 * (1 << 17) + 40
    stream = insecure_keystream(9)
    assert _bytes(insecure_keystream(9), n) == _bytes(stream, 1000) + _bytes(stream, n - 1000)
