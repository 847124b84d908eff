"""The site of a folder of bundles: what is offered and refused, what a second run touches, and what is left alone."""

import hashlib
import json
import math
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import norm
from tests.unit.common.trust.test_succession import KEYS, PRIVATE, rotation

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.catalog import shown
from dp_bundle.catalog.making import SiteSettings, SiteSummary, make_catalog, withdraw
from dp_bundle.catalog.pages import page_beside
from dp_bundle.catalog.site import check_site, note_path, serve_site
from dp_bundle.cli.main import cli
from dp_bundle.files.new_files import locked_folder
from dp_bundle.trust.judging import Revocation, UnsafeTrustAnyone, sign_statement
from dp_bundle.trust.signing import load_private_key, public_key_of
from dp_bundle.trust.store import TrustStore, accept_statement, new_key_pair
from dp_publish import Policy, load_key, publish
from dp_publish.ledger.ledger import Ledger

ATOM = "{http://www.w3.org/2005/Atom}"
ADDRESS = "https://data.example.org/"
TITLE = "Heights & <weights>"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Publish two releases of one dataset and one of another."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(folder / "home"))
        new_key_pair()
        for file, name in (("one.tar", "heights"), ("two.tar", "heights"), ("other.tar", "other")):
            release(folder / file, name, key=load_key())
        yield folder


def release(path: Path, name: str, **given: Any) -> None:
    """Publish a table of one column."""
    table = pd.DataFrame({"height": np.random.default_rng(3).normal(170, 10, 100)})
    document = {
        "dataset": {"name": name, "title": TITLE, "url": "https://[no-address-to-python#"},
        "privacy": {"mu": 2.0},
        "columns": {"height": {"bounds": [120, 220]}},
    }
    publish(table, Policy.model_validate(document), out=path, **given)


@pytest.fixture
def bundles(published: Path, tmp_path: Path) -> Path:
    """Return a folder with copies of the bundles, one of them in a folder of its own, and a damaged one."""
    folder = tmp_path / "bundles"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(published / "one.tar", folder / "deep")
    shutil.copy(published / "two.tar", folder)
    shutil.copy(published / "other.tar", folder)
    (folder / "damaged.tar").write_bytes((published / "two.tar").read_bytes()[:-1] + b"x")
    (folder / "notes.txt").write_text("no bundle")
    return folder


@pytest.fixture
def store(published: Path) -> TrustStore:
    """Return a store that trusts the publisher."""
    return TrustStore(published / "home" / "trusted")


def times(site: Path) -> dict[str, int]:
    """Return when each file was last written."""
    return {path.relative_to(site).as_posix(): path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}


def contents(site: Path) -> dict[str, bytes]:
    """Return every file's bytes."""
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_bundles_are_offered_with_checksums_feed_catalog_and_sitemap(
    bundles: Path, tmp_path: Path, store: TrustStore
) -> None:
    """Three releases are offered; every list of them names all three, and no page names a folder of this machine."""
    site = tmp_path / "site"
    assert make_catalog(bundles, site, SiteSettings(address=ADDRESS), store) == SiteSummary(3, 1, 4, 11, 0)
    lines = (site / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == 3
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((site / name).read_bytes()).hexdigest() == digest
    feed = ElementTree.parse(site / "feed.xml").getroot()  # noqa: S314  our own
    told_apart = {
        f"{TITLE} ({name}), release {number}" for name, number in (("heights", 1), ("heights", 2), ("other", 1))
    }
    assert {entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")} == told_apart
    links = [entry.find(f"{ATOM}link").attrib["href"] for entry in feed.iter(f"{ATOM}entry")]
    assert all((site / link.removeprefix(ADDRESS)).exists() for link in links)
    catalog = json.loads((site / "catalog.jsonld").read_text())
    assert len(catalog["dcat:dataset"]) == 3
    assert len(list(ElementTree.parse(site / "sitemap.xml").getroot())) == 4  # noqa: S314  our own
    for name, content in contents(site).items():
        assert name.endswith(".tar") or str(tmp_path).encode() not in content


def test_a_second_run_touches_nothing_and_a_new_site_has_the_same_bytes(
    bundles: Path, tmp_path: Path, store: TrustStore
) -> None:
    """Files keep their time if nothing changed, and bytes depend on the bundles alone."""
    site = tmp_path / "site"
    make_catalog(bundles, site, store=store)
    before = times(site)
    again = make_catalog(bundles, site, store=store)
    assert (again.read, again.written, again.removed) == (0, 0, 0)
    assert times(site) == before
    make_catalog(bundles, tmp_path / "new", store=store)
    assert contents(tmp_path / "new") == contents(site)


def test_only_what_a_change_concerns_is_written(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """A bundle that is gone takes its pages with it; another dataset's pages, and files that are not ours, stay."""
    site = tmp_path / "site"
    make_catalog(bundles, site, store=store)
    (site / "CNAME").write_text("data.example.org")
    (site / "datasets" / "ours.txt").write_text("kept")
    before = times(site)
    (bundles / "two.tar").unlink()
    summary = make_catalog(bundles, site, store=store)
    assert (summary.read, summary.removed) == (0, 2)
    after = times(site)
    changed = {name.rpartition("/")[2] for name in after if after[name] != before[name]}
    assert {name.rpartition("/")[2] for name in before if name not in after} == {
        "release-2.html",
        "heights-2.bundle.tar",
    }
    lists = {"index.html", "feed.xml", "catalog.jsonld", "SHA256SUMS", ".dpgraph-catalog.json"}
    assert changed == {"release-1.html", *lists}
    assert {"CNAME", "datasets/ours.txt"} <= set(after)


def test_a_withdrawn_release_leaves_a_page_that_says_why(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """Its address, the list, the feed, the sitemap and the catalog tell it, with what replaces it; its file is gone."""
    site, why = tmp_path / "site", "The heights were <inches>."
    settings = SiteSettings(address=ADDRESS)
    make_catalog(bundles, site, settings, store)
    page = next(path for path in site.rglob("release-1.html") if "heights" in path.parent.name)
    withdraw(bundles / "deep" / "one.tar", why, store)
    with pytest.raises(DpGraphError):
        withdraw(bundles / "deep" / "one.tar", why, store)
    (bundles / "deep" / "one.tar").unlink()  # the note is enough

    summary = make_catalog(bundles, site, settings, store)
    assert (summary.offered, summary.withdrawn, summary.read) == (2, 1, 0)
    assert check_site(site, ADDRESS) == []
    assert not list(page.parent.glob("*-1.bundle.tar"))
    for told in (page, page.with_name("release-2.html"), site / "index.html"):
        assert "The heights were &lt;inches&gt;." in told.read_text()
    assert "release-2.html" in page.read_text()
    assert "Withdrawn: Heights" in (site / "feed.xml").read_text()
    gone = [each for each in json.loads((site / "catalog.jsonld").read_text())["dcat:dataset"] if "adms:status" in each]
    assert [each["dct:isReplacedBy"]["@id"].rpartition("/")[2] for each in gone] == ["release-2.html"]


def test_a_note_speaks_for_one_release_once_and_only_beside_a_bundle(
    bundles: Path, tmp_path: Path, store: TrustStore, published: Path
) -> None:
    """A copy's note tells nothing twice, a folder's signer withdraws nothing, and what is offered keeps its page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(published / "home"))
        release(bundles / "again.tar", "other", key=load_key(), ledger=Ledger(tmp_path / "ledger"))
    shutil.copy(bundles / "deep" / "one.tar", bundles)
    for name in ("one.tar", "deep/one.tar", "other.tar", "two.tar"):
        note = withdraw(bundles / name, "wrong unit", store)
    (bundles / "folder").mkdir()
    (bundles / "folder" / MANIFEST_NAME).touch()
    note.rename(bundles / "folder" / note.name)
    (bundles / "folder" / "x.withdrawn.json").write_text("nonsense")

    site = tmp_path / "site"
    summary = make_catalog(bundles, site, SiteSettings(address=ADDRESS), store)
    assert (summary.offered, summary.withdrawn) == (2, 1)
    assert check_site(site, ADDRESS) == []
    assert (site / "feed.xml").read_text().count("Withdrawn: ") == 1
    assert "heights-2.bundle.tar" in next(site.glob("datasets/heights*/release-2.html")).read_text()
    assert "other-1.bundle.tar" in next(site.glob("datasets/other*/release-1.html")).read_text()


def test_a_note_is_beside_the_folder_that_a_command_is_in(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a reason that is longer than a note holds is refused in a sentence."""
    refused = CliRunner().invoke(cli, ["withdraw", str(published / "one.tar"), "--why", "x" * 2001])
    assert isinstance(refused.exception, ParameterError)
    monkeypatch.chdir(tmp_path)
    assert note_path(Path()) == tmp_path.with_name(f"{tmp_path.name}.withdrawn.json")


def test_a_page_of_more_rows_than_it_reads_says_so(
    bundles: Path, tmp_path: Path, store: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all the rest."""
    monkeypatch.setattr(shown, "_MOST_CELLS", 10)
    make_catalog(bundles, tmp_path / "site", store=store)
    assert "does not read so many rows" in next((tmp_path / "site").rglob("release-1.html")).read_text()


def test_the_page_of_very_many_long_levels_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves out it says."""
    levels = [f"{number:0190}" for number in range(300)]
    monkeypatch.setattr(shown, "_MOST_COLUMNS", 100)
    table = pd.DataFrame(dict.fromkeys("ab", levels))
    columns = {name: {"kind": "category", "categories": levels} for name in table}
    policy = Policy.model_validate({"dataset": {"name": "x"}, "privacy": {"mu": 2.0}, "columns": columns})
    publish(table, policy, out=tmp_path / "in.tar", key=PRIVATE[0], ledger=Ledger(tmp_path / "ledger"))
    with open_bundle(tmp_path / "in.tar", UnsafeTrustAnyone()) as bundle:
        page = page_beside(bundle, bundle.release, file="in.tar", seen=[])
    assert len(page) < 250_000
    assert "Levels that only the file has: 2" in page
    assert "so many rows or columns" in page


def test_a_check_names_what_is_wrong_with_a_site(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """A page without its download, a changed download and a catalog that names what is not there are each named."""
    site = tmp_path / "site"
    make_catalog(bundles, site, SiteSettings(address=ADDRESS), store)
    next(site.rglob("heights-2.bundle.tar")).unlink()
    next(site.rglob("heights-1.bundle.tar")).write_bytes(b"x")
    next(site.rglob("other*/release-1.html")).unlink()
    faults = "\n".join(check_site(site, ADDRESS))
    for part in ("heights-2.bundle.tar leads to no file", "heights-2.bundle.tar is not there", "another checksum"):
        assert part in faults
    for file in ("index.html", "feed.xml", "sitemap.xml", "catalog.jsonld"):
        assert f"{file}: " in faults


def test_guesses_are_those_from_all_releases_of_a_dataset(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """The list counts what both releases at mu = 2 let guess together; a release's page says its own and both."""
    site = tmp_path / "site"
    make_catalog(bundles, site, store=store)
    alone, both = (f"{math.ceil(1000 * norm.cdf(mu / 2)) / 10} %" for mu in (2.0, math.sqrt(8)))
    listed = (site / "index.html").read_text()
    assert f"at most {both} of guesses right, with all 2 releases" in listed
    assert f"at most {alone} of guesses right<" in listed  # the other dataset has one
    page = next(site.glob("datasets/heights*/release-2.html")).read_text()
    assert f"At most {alone} of guesses are right; without the release, 50 %. With all 2 releases" in page
    assert f"right in at most {both} of cases after seeing all 2 releases so far, in place of 50 %." in page
    assert listed.count("weakly protects") == 1  # from nine right guesses in ten on
    assert "Weakly protects" in page


@pytest.mark.parametrize("any_signer", [False, True])
def test_one_dataset_has_one_address_and_one_total_after_a_rotation(
    any_signer: bool, home: Path, tmp_path: Path
) -> None:
    """Releases by both keys are in one folder, the old one's, from the moment the rotation is accepted."""
    bundles, site, store = tmp_path / "bundles", tmp_path / "site", TrustStore(tmp_path / "readers")
    bundles.mkdir()
    for number in (0, 1):
        release(bundles / f"{number}.tar", "heights", key=PRIVATE[number])
        store.add(KEYS[number], f"key {number}")
    settings = SiteSettings(address=ADDRESS, any_signer=any_signer)
    make_catalog(bundles, site, settings, store)
    (first,) = site.glob("datasets/*/release-1.html")

    accept_statement(store, rotation())
    if any_signer:
        store.remove(KEYS[0])
    assert make_catalog(bundles, site, settings, store).offered == 2
    assert {path.parent for path in site.glob("datasets/*/*")} == {first.parent}
    listed = (site / "index.html").read_text()
    assert listed.count("of guesses right, with all 2 releases") == listed.count("of guesses right") == 1
    for name in ("feed.xml", "catalog.jsonld", "sitemap.xml"):
        assert (site / name).read_text().count(f"{first.parent.name}/release-") >= 2


@pytest.mark.parametrize("any_signer", [False, True])
def test_revoked_releases_are_not_offered(published: Path, bundles: Path, tmp_path: Path, any_signer: bool) -> None:
    """What a reader on this machine would refuse is listed with the reason, a key taken back."""
    store = TrustStore()
    key = load_private_key(published / "home" / "keys" / "publisher.key")
    signer = public_key_of(key)
    settings = SiteSettings(any_signer=any_signer)
    store.add(signer, "office")
    accept_statement(store, sign_statement(Revocation(signer.fingerprint, "2026-11-01", "2026-11-23", {}), key))
    assert make_catalog(bundles, tmp_path / "site", settings, store).offered == 0
    assert "was revoked" in (tmp_path / "site" / "index.html").read_text()


def test_a_page_that_somebody_changed_is_made_again(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """What is ours and no longer as we wrote it is written anew, without verifying any bundle again."""
    site = tmp_path / "site"
    make_catalog(bundles, site, store=store)
    before = contents(site)
    next(site.glob("datasets/*/release-2.html")).write_text("altered")
    next(site.glob("datasets/*/*-2.bundle.tar")).write_bytes(b"altered")
    summary = make_catalog(bundles, site, store=store)
    assert (summary.read, summary.written) == (0, 2)
    assert contents(site) == before


KILLED = """
import os, pathlib, signal, sys
from dp_bundle.catalog.making import make_catalog
from dp_bundle.trust.store import TrustStore
left = int(sys.argv[1])
def replace(self, target):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    os.replace(self, target)
pathlib.Path.replace = replace
bundles, site, store = map(pathlib.Path, sys.argv[2:])
make_catalog(bundles, site, store=TrustStore(store))
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_written", [0, 1, 2, 5])
def test_what_a_killed_run_left_is_removed(
    n_written: int, bundles: Path, published: Path, tmp_path: Path, store: TrustStore
) -> None:
    """The next run removes files that got no name, and no others, also where a dataset is gone by then."""
    site, whole = tmp_path / "site", tmp_path / "whole"
    arguments = [str(n_written), bundles, site, published / "home" / "trusted"]
    assert subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False).returncode == -signal.SIGKILL
    assert len(list(site.rglob(".*.partial"))) == 1
    mine = site / ".index.html.mine.partial"
    mine.write_text("a file of mine")

    (bundles / "other.tar").unlink()
    for folder in (site, whole):
        make_catalog(bundles, folder, store=store)
    assert mine.read_text() == "a file of mine"
    mine.unlink()
    assert contents(site).keys() == contents(whole).keys()


def test_a_file_that_is_no_bundle_is_not_read_for_its_digest(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """However large it is; it is refused as before."""
    with (bundles / "huge.tar").open("wb") as file:
        file.truncate(2**42)
    summary = make_catalog(bundles, tmp_path / "site", store=store)
    assert (summary.offered, summary.refused) == (3, 2)


def test_two_runs_at_once_on_one_site_are_told_apart(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """While one run holds the site, another is refused in one sentence, and writes nothing; afterwards it may."""
    site = tmp_path / "site"
    site.mkdir()
    with locked_folder(site), pytest.raises(DpGraphError, match="another"):
        make_catalog(bundles, site, store=store)
    assert contents(site) == {}
    assert make_catalog(bundles, site, store=store).offered == 3


def test_a_file_that_is_not_ours_is_never_replaced(bundles: Path, tmp_path: Path, store: TrustStore) -> None:
    """A folder with another index.html is refused before anything is written to it."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("a page of mine")
    with pytest.raises(DpGraphError, match="catalog"):
        make_catalog(bundles, site, store=store)
    assert contents(site) == {"index.html": b"a page of mine"}


def test_a_site_within_the_folder_is_no_bundle_and_the_folder_is_no_site(
    bundles: Path, tmp_path: Path, store: TrustStore
) -> None:
    """A site may stand in the folder of bundles, whose downloads are not read again; it may not hold that folder."""
    first = make_catalog(bundles, bundles / "site", store=store)
    again = make_catalog(bundles, bundles / "site", store=store)
    assert (first.offered, again.offered, again.written) == (3, 3, 0)
    for out in (bundles, tmp_path):
        with pytest.raises(DpGraphError, match="bundles"):
            make_catalog(bundles, out, store=store)


def test_an_unknown_signer_is_offered_only_on_demand(bundles: Path, tmp_path: Path) -> None:
    """Without trust in the signer all files are refused; with any signer they are offered with a warning."""
    nobody = TrustStore(tmp_path / "nobody")
    assert make_catalog(bundles, tmp_path / "strict", store=nobody).offered == 0
    assert "does not know its signer" in (tmp_path / "strict" / "index.html").read_text()
    assert make_catalog(bundles, tmp_path / "open", SiteSettings(any_signer=True), nobody).offered == 3
    page = next((tmp_path / "open").glob("datasets/*/release-1.html")).read_text()
    assert "This portal does not know the signer" in page


def test_two_files_with_one_number_are_both_refused(
    published: Path, bundles: Path, tmp_path: Path, store: TrustStore
) -> None:
    """A publisher whose ledger was lost gives a number twice: neither file is offered, and both are named."""
    key = load_private_key(published / "home" / "keys" / "publisher.key")
    release(bundles / "fork.tar", "other", key=key, ledger=Ledger(tmp_path / "another"))
    summary = make_catalog(bundles, tmp_path / "site", store=store)
    assert (summary.offered, summary.refused) == (2, 3)
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.count("2 files here claim to be release 1 of this dataset, and differ") == 2
    assert not list((tmp_path / "site").glob("datasets/other-*"))


def test_a_site_is_served_on_loopback_without_hidden_files(tmp_path: Path) -> None:
    """The list is served with its type; what the next run remembers is not, nor what links lead to outside of it.

    Nor is it served under another name than this machine's.
    """
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<p>the list</p>")
    (site / ".dpgraph-catalog.json").write_text("{}")
    (tmp_path / "secret.txt").write_text("secret")
    (site / "out.txt").symlink_to(tmp_path / "secret.txt")
    (site / "up").symlink_to(tmp_path)
    with serve_site(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        where = f"http://127.0.0.1:{server.server_port}"
        try:
            with urllib.request.urlopen(f"{where}/") as answer:  # noqa: S310  our own
                assert (answer.headers["Content-Type"], answer.read()) == ("text/html", b"<p>the list</p>")
            hidden = ["/.dpgraph-catalog.json", "/%2edpgraph-catalog.json", "/%00", "/out.txt", "/up/secret.txt"]
            evil = urllib.request.Request(f"{where}/", headers={"Host": "evil.example"})  # noqa: S310  our own
            for asked, status in (*((f"{where}{name}", "404") for name in hidden), (evil, "403")):
                with pytest.raises(urllib.error.HTTPError, match=status) as error:
                    urllib.request.urlopen(asked)  # noqa: S310  our own
                error.value.close()
        finally:
            server.shutdown()
            thread.join()
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_in_use_and_a_missing_site_are_told_in_a_sentence(tmp_path: Path) -> None:
    """Each error says what to do."""
    with pytest.raises(DpGraphError, match="catalog"):
        serve_site(tmp_path, 0)
    (tmp_path / "index.html").write_text("")
    with serve_site(tmp_path, 0) as server, pytest.raises(DpGraphError, match="--port"):
        serve_site(tmp_path, server.server_port)
