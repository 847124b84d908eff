"""Bundles elsewhere, on S3 and behind a web server, read here or by workers: the same bytes, or a refusal."""

import hashlib
import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Run
from tests.engines import Messages
from tests.hostile import BEHAVIOURS, HostileServer
from tests.s3 import FaultyProxy
from tests.web import WebServer

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.engine import Dask, Engine, map_in_order
from dp_bundle.base.errors import (
    BundleError,
    BundleFormatError,
    DpGraphError,
    ParameterError,
    StoreError,
)
from dp_bundle.data import rows
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import RemotePath
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.store import private_key_path
from dp_learn import estimate_moments
from dp_learn.covariance.moments import BundleRows, fold_moments, row_errors, subsample_moments
from dp_publish import load_key

FORMS = np.random.default_rng(5).normal(size=(3, 2))


@pytest.fixture
def bucket(multipart: Path, s3: FaultyProxy) -> str:
    """Put the folder at `a` and its tar at `a.tar` in a bucket, and return its URI."""
    store = open_store(f"s3://{s3.bucket}")
    for path in [multipart / "a.tar", *(multipart / "a").rglob("*")]:
        if path.is_file():
            store.create(path.relative_to(multipart).as_posix(), path.read_bytes())
    s3.passed_on.clear()
    return f"s3://{s3.bucket}"


def moments_of(bundle: Bundle) -> tuple[Any, ...]:
    """Return what `dp-learn` begins with, as bytes."""
    moments = estimate_moments(bundle)
    return moments.n_rows, np.asarray(moments.mean).tobytes(), np.asarray(moments.scatter).tobytes()


def test_all_places_give_the_same_bits(multipart: Path, web: WebServer, bucket: str) -> None:
    """A tar, a folder, S3 and the web, in both forms, hold one release, and give the same moments to the bit."""
    found = set()
    for place in [f"{start}/{form}" for start in (multipart, web.url, bucket) for form in ("a", "a.tar")]:
        with open_bundle(place, UnsafeTrustAnyone()) as bundle:
            assert str(bundle.path) == str(place)
            assert bundle.tar_path.name == "a.tar"
            found.add((bundle.manifest_sha256, tuple(bundle.members), *moments_of(bundle)))
    assert len(found) == 1


def test_what_an_address_holds_is_told_by_its_first_bytes(web: WebServer) -> None:
    """As portals give files numbers for names."""
    web.contents["/api/access/datafile/123"] = web.contents["/a.tar"]
    places = [f"{web.url}/{name}" for name in ("api/access/datafile/123", "a.tar")]
    one, other = (open_bundle(place, UnsafeTrustAnyone()) for place in places)
    assert moments_of(one) == moments_of(other)


@pytest.mark.parametrize("form", ["a", "a.tar"])
def test_each_byte_is_asked_for_once(multipart: Path, web: WebServer, form: str) -> None:
    """A part is one request, its header in a tar is another, and whoever opens it again asks for no part."""
    with open_bundle(f"{web.url}/{form}", UnsafeTrustAnyone()) as bundle:
        moments_of(bundle)
        parts = [member for name, member in bundle.members.items() if name.startswith("data/")]
    first = len(web.requests)
    assert first <= 2 * len(parts) + 6  # manifest, three descriptions, signatures; or size, start, end, signatures
    assert web.sent <= 1.2 * sum(part.size for part in parts) + 2**17
    with open_bundle(f"{web.url}/{form}", UnsafeTrustAnyone()) as bundle:
        moments_of(bundle)
    assert len(web.requests) - first <= len(parts) + 6
    assert web.sent <= 1.2 * sum(part.size for part in parts) + 2**18


@pytest.mark.parametrize("name", ["manifest.dsse.json", "README.md", "croissant.json", "datapackage.json"])
def test_a_changed_description_is_refused_before_any_part_is_fetched(web: WebServer, name: str) -> None:
    """The manifest and what it names come first, and the parts only after all that."""
    content = web.contents[f"/a/{name}"]
    web.contents[f"/a/{name}"] = content.replace(b"e", b"a", 1)
    with pytest.raises(BundleError):
        open_bundle(f"{web.url}/a", UnsafeTrustAnyone())
    assert not [path for path, _ in web.requests if "data/" in path]


def test_a_server_that_sends_too_much_is_cut_off(web: WebServer) -> None:
    """A server that never stops is left where the signed size ends."""
    web.endless = True
    with open_bundle(f"{web.url}/a", UnsafeTrustAnyone()) as bundle:
        assert bundle.release.n_rows == 600_000
    assert web.sent < 2**28


def test_a_file_in_the_cache_that_changed_is_not_used(web: WebServer, tmp_path: Path) -> None:
    """A kept part is verified again when a bundle is opened, and block by block when it is read."""
    for _ in range(2):
        with open_bundle(f"{web.url}/a", UnsafeTrustAnyone()) as bundle:
            expected = moments_of(bundle)
        for path in (tmp_path / "cache" / "dpgraph").glob("?" * 64):
            path.write_bytes(b"x" + path.read_bytes()[1:])
    with open_bundle(f"{web.url}/a", UnsafeTrustAnyone()) as bundle:
        assert moments_of(bundle) == expected
        path = tmp_path / "cache" / "dpgraph" / bundle.sha256("data/part-00002.parquet")
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        with pytest.raises(BundleFormatError, match="was changed after it was verified"):
            moments_of(bundle)


def test_a_cache_smaller_than_the_bundle_is_enough(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that had to go are fetched again."""
    monkeypatch.setenv("DPGRAPH_CACHE_GB", "0")
    with open_bundle(f"{web.url}/a", UnsafeTrustAnyone()) as bundle:
        assert moments_of(bundle)[0] == 600_000


def test_commands_take_uris(web: WebServer, bucket: str, multipart: Path, command: Run, tmp_path: Path) -> None:
    """Each command that only reads takes a URI, writes what it writes here, and shows no query."""
    found = json.loads(command("dp-bundle", "verify", f"{web.url}/a?key=secret", "--any-signer", "--json").stdout)
    assert found["verified"]
    assert "secret" not in command("dp-bundle", "inspect", f"{web.url}/a.tar?key=secret").stdout
    assert command("dp-bundle", "unpack", f"{bucket}/a.tar").returncode == 0
    assert (tmp_path / "a" / "README.md").read_bytes() == (multipart / "a" / "README.md").read_bytes()
    assert command("dp-bundle", "pack", f"{bucket}/a", "--out", "b.tar").returncode == 0
    assert (tmp_path / "b.tar").read_bytes() == (multipart / "a.tar").read_bytes()
    for words in (["minisign"], ["stage", "--for", "zenodo"]):
        refused = command("dp-bundle", *words, f"{web.url}/a?key=secret")
        assert (refused.returncode, "unpack it first" in refused.stderr, "secret" in refused.stderr) == (2, True, False)


def test_a_remote_path_names_its_neighbours() -> None:
    """A neighbour has the same query, and text shows neither query nor user."""
    path = RemotePath("https://user@host/a%20folder/x.tar?key=secret")
    assert (path.name, str(path)) == ("x.tar", "https://host/a%20folder/x.tar")
    assert path.with_name("y z").uri == "https://user@host/a%20folder/y%20z?key=secret"
    assert path.folder == "https://user@host/a%20folder?key=secret"
    assert "secret" not in repr(path)
    assert RemotePath("s3://bucket/").name == "bucket"
    assert RemotePath("s3://bucket/a%20b").with_name("c d").uri == "s3://bucket/c d"


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_server_holds_a_reader(behaviour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little patience, each behaviour is given up within that, and a second for the rest of the work."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", "0.2")
    hostile, start = HostileServer(), time.monotonic()
    with pytest.raises((StoreError, BundleError)):
        open_bundle(f"{hostile.url}/{behaviour}/x.tar", UnsafeTrustAnyone())
    assert time.monotonic() - start < 6
    hostile.close()


@pytest.mark.parametrize("nonsense", ["much", "nan", "inf", "0", "-1", "1e9"])
def test_patience_is_a_number_of_seconds(nonsense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nonsense in the variable is refused by its name."""
    monkeypatch.setenv("DPGRAPH_PATIENCE", nonsense)
    with pytest.raises(ParameterError, match="DPGRAPH_PATIENCE"):
        open_store("https://example.org/x").read("a")


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
    multipart: Path, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_workers: int
) -> None:
    """One worker or two read a tar, a folder, S3 and a web server, and all passes give the bits of threads here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    web = WebServer()
    web.serve_folder(multipart / "a.tar", "/a.tar")
    places = [multipart / "a.tar", multipart / "a", f"{bucket}/a", f"{web.url}/a.tar"]

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
