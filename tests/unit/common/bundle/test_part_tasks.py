"""A bundle whose parts are verified and read by workers: the same bits as here, or a refusal."""

import hashlib
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.engines import Messages
from tests.s3 import FaultyProxy
from tests.web import WebServer

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import BundleFormatError, DpGraphError, StoreError
from dp_bundle.data import rows
from dp_bundle.engines.dask import Dask
from dp_bundle.engines.engine import Engine, map_in_order
from dp_bundle.files.opening import open_store
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.keys import private_key_path
from dp_learn import estimate_moments
from dp_learn.covariance.moments import BundleRows, fold_moments, row_errors, subsample_moments
from dp_publish import load_key

FORMS = np.random.default_rng(5).normal(size=(3, 2))


def opened(place: Path | str, engine: Engine | None = None) -> Bundle:
    """Open a bundle of anybody's."""
    return open_bundle(place, UnsafeTrustAnyone(), engine=engine)


def numbers(bundle: Bundle, *, forms: bool = False) -> list[str]:
    """Return the digests of everything that passes over the rows give."""
    with bundle:
        swapped = BundleRows(bundle, [1, 0])
        moments = [estimate_moments(bundle), *fold_moments(swapped, 2, 3), *subsample_moments(swapped, 2, 2, 0.5)]
        found = [array.tobytes() for each in moments for array in (each.mean, each.scatter)]
        if forms:
            errors = row_errors(swapped, moments[1].mean, FORMS)
            found += [errors.products.tobytes(), errors.crossed.tobytes(), errors.squares.tobytes()]
        return [hashlib.sha256(each).hexdigest() for each in found]


@pytest.mark.parametrize("name", ["a.tar", "a"])
def test_workers_give_the_same_bits(multipart: Path, name: str) -> None:
    """Moments, folds and subsamples are those of threads, with results in any order and tasks that run twice."""
    assert numbers(opened(multipart / name, Messages())) == numbers(opened(multipart / "a.tar"))


def test_a_task_is_small_and_holds_no_key(multipart: Path) -> None:
    """What a worker is sent has at most 20 kB, and neither the key's file nor its seed."""
    engine = Messages()
    numbers(opened(multipart / "a.tar", engine))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(multipart / "home"))
        key, path = load_key().private_bytes_raw(), private_key_path()

    assert len(engine.sent) == 4 * 3  # digests, moments, folds and subsamples of three parts
    for message in engine.sent:
        assert len(message) <= 20_000
        assert key not in message
        assert key.hex().encode() not in message
        assert path.name.encode() not in message


@pytest.mark.parametrize("name", ["a.tar", "a"])
def test_a_part_that_was_changed_after_it_was_verified_is_refused(multipart: Path, tmp_path: Path, name: str) -> None:
    """A worker compares the digest of a part with that of its task before it parses anything."""
    part = copied(multipart / name, tmp_path / name)
    with opened(tmp_path / name, Messages()) as bundle:
        flip(multipart / "a", part)
        with pytest.raises(BundleFormatError, match=r"part-00001\.parquet was changed after it was verified"):
            estimate_moments(bundle)


def test_another_manifest_alone_is_refused(multipart: Path, tmp_path: Path) -> None:
    """The digest of the manifest is in the task, so that the same part is not read by another one's words."""
    copied(multipart / "a", tmp_path / "a")
    with opened(tmp_path / "a", Messages()) as bundle:
        shutil.copy(multipart / "b" / "manifest.dsse.json", tmp_path / "a")
        with pytest.raises(BundleFormatError, match=r"manifest\.dsse\.json was changed after it was verified"):
            estimate_moments(bundle)


def test_a_path_that_workers_do_not_have_is_named(multipart: Path, tmp_path: Path) -> None:
    """Workers on another machine may not see the path, and the message says so."""
    copied(multipart / "a.tar", tmp_path / "a.tar")
    engine = Messages()
    engine.before = (tmp_path / "a.tar").unlink
    with pytest.raises(StoreError, match=r"a\.tar: a worker cannot read it .*: give a path or URI that all workers"):
        opened(tmp_path / "a.tar", engine)


def test_parts_of_other_lengths_are_refused(multipart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row numbers follow from the usual lengths of parts, and decide folds: with others, none would be right."""
    with opened(multipart / "a.tar", Messages()) as bundle:
        monkeypatch.setattr(rows, "_PART_CELLS", 2**20)
        with pytest.raises(BundleFormatError, match="read it without --engine"):
            estimate_moments(bundle)


def test_a_result_that_is_missing_is_an_error() -> None:
    """An engine that leaves out a task is found out, in every window."""

    class Forgetful(Messages):
        def map_unordered(self, function, tasks):  # type: ignore[no-untyped-def]
            yield from super().map_unordered(function, list(tasks)[:-1])

    assert list(map_in_order(Messages(), abs, [-1, -2, -3, -4, -5], 2)) == [1, 2, 3, 4, 5]
    with pytest.raises(DpGraphError, match="did not return all results"):
        list(map_in_order(Forgetful(), abs, [-1, -2, -3], 2))


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_dask_gives_the_same_bits_from_everywhere(
    multipart: Path, s3: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_workers: int
) -> None:
    """One worker or two read a tar, a folder, S3 and a web server, and all passes give the bits of threads here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, web = open_store(f"s3://{s3.bucket}"), WebServer()
    web.serve_folder(multipart / "a.tar", "/a.tar")
    for path in (multipart / "a").rglob("*"):
        if path.is_file():
            store.create(path.relative_to(multipart).as_posix(), path.read_bytes())
    places = [multipart / "a.tar", multipart / "a", f"s3://{s3.bucket}/a", f"{web.url}/a.tar"]

    expected = numbers(opened(multipart / "a.tar"), forms=True)
    with Dask(n_workers=n_workers) as engine:
        large = partial(np.add, np.arange(5000))  # which goes to each worker once
        assert all(
            np.array_equal(*pair) for pair in zip(map_in_order(engine, large, [1, 2]), map(large, [1, 2]), strict=True)
        )
        found = [numbers(opened(place, engine), forms=index == 0) for index, place in enumerate(places)]
    web.close()
    assert found[0] == expected
    assert found[1:] == [expected[: len(found[1])]] * 3


def copied(path: Path, to: Path) -> Path:
    """Copy a tar or a folder; return the file in which its second part is."""
    if path.is_dir():
        shutil.copytree(path, to)
        return to / "data" / "part-00001.parquet"
    return shutil.copy(path, to)


def flip(whole: Path, file: Path) -> None:
    """Change one bit of the second part, wherever it lies."""
    part = (whole / "data" / "part-00001.parquet").read_bytes()
    file.write_bytes(file.read_bytes().replace(part, part[:-99] + bytes([part[-99] ^ 1]) + part[-98:]))
