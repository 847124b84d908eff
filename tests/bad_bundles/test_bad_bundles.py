"""Bundles that break one rule each are refused, by our reader, by the one in JavaScript, and by the short script."""

import base64
import importlib.util
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from tests.bad_bundles.corpus import CASES, file_name, write_corpus
from tests.bad_bundles.making import KEY, Case, good, rewritten
from tests.fuzz.mutate import mutate_member, mutate_payload
from tests.tamper.archives import members_of

from dp_bundle import BundleError, open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust.judging import TrustPolicy, UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, PublicKey, public_key_of
from dp_bundle.trust.store import TrustStore

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("bundle-*.tar"))
PAGE = (ROOT / "docs" / "bundle-format.md").read_text()
READER = ROOT / "examples" / "reader-node"
WITHOUT_A_FILE = {"D8", "R1", "R2"}  # a very large file, and what depends on the files seen before
LEFT_OUT_BY_NODE = {"M5", "G5", "R1", "R2"}
CHECKED_BY_SCRIPT = {"A1", "A2", "A3", "A4", "E1", "E2", "E4", "P2", "P3", "M1", "M2", "M4"}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the bad bundles."""
    folder = tmp_path_factory.mktemp("corpus") / "bad"
    write_corpus(folder)
    return folder


@pytest.fixture(scope="session")
def said_by_node(corpus: Path) -> dict[str, str]:
    """Return what the reader in JavaScript says of each file, asked once for all."""
    files = sorted(corpus.glob("*.tar"))
    return dict(zip([path.name for path in files], _ask_node(files), strict=True))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return the example that verifies without us, as a module."""
    spec = importlib.util.spec_from_file_location("without", ROOT / "examples" / "verify_without_dpgraph.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def trusting(home: Path) -> None:
    """Trust the key of the corpus."""
    TrustStore().add(public_key_of(KEY), "corpus")


def _ask_node(files: list[Path]) -> list[str]:
    """Return what the reader in JavaScript says of these files, which the key of the corpus signed."""
    lines = "".join(f"{path}\t{public_key_of(KEY).fingerprint}\n" for path in files)
    words = ["node", READER / "read.mjs", "--batch"]
    done = subprocess.run(words, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _read(path: Path, trust: TrustPolicy | None = None) -> None:
    """Open a bundle, and read all of its numbers."""
    with open_bundle(path, trust) as bundle:
        if bundle.release.kind == "rows":
            list(bundle.batches())
            return
        bundle.second_moments()
        if len(bundle.release.matrix_names) > 1:
            bundle.first_round()
            bundle.transform()
        if bundle.release.margins is not None:
            bundle.margins()


def test_every_rule_has_a_case() -> None:
    """Each rule of the page is broken by a case, but for three that no single small file can break."""
    rules = re.findall(r"^\*\*([A-Z]\d)\.\*\* ", PAGE, re.MULTILINE)
    assert len(rules) == len(set(rules)) > 45
    assert {case.rule for case in CASES} == set(rules) - WITHOUT_A_FILE
    assert max(Counter(case.name for case in CASES).values()) == 1


def test_the_good_ones_are_accepted(script: ModuleType, tmp_path: Path) -> None:
    """What each case begins with is accepted."""
    for name in sorted({path.stem.removeprefix("bundle-") for path in GOLDEN}):
        path = tmp_path / f"{name}.tar"
        path.write_bytes(good(name))
        _read(path, UnsafeTrustAnyone())  # all say that they are release 1 of wine, which is refused by R1
        script.verify(path, public_key_of(KEY).raw)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.name}")
def test_our_reader_refuses(case: Case, corpus: Path, trusting: None) -> None:
    """A bad bundle is refused, at the latest when its numbers are read, and the sentence says why."""
    with pytest.raises(BundleError, match=case.says):
        _read(corpus / file_name(case.name))


@pytest.mark.tools
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.rule not in LEFT_OUT_BY_NODE], ids=lambda case: f"{case.rule} {case.name}"
)
def test_reader_in_javascript_refuses(case: Case, said_by_node: dict[str, str]) -> None:
    """The reader in JavaScript refuses it by the very rule, and accepts the good one."""
    assert said_by_node["good.tar"] == "accepted"
    said = said_by_node[file_name(case.name)]
    assert said.startswith(f"refused: {case.rule}: "), said


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.name}")
def test_short_script_refuses_what_is_not_as_it_was_signed(case: Case, corpus: Path, script: ModuleType) -> None:
    """The script refuses by the very rule what it checks, and accepts the rest, as its page says."""
    path, key = corpus / file_name(case.name), public_key_of(KEY).raw
    if case.rule in CHECKED_BY_SCRIPT:
        with pytest.raises(script.RefusedError, match=rf"^[^:]*\b{case.rule}\b"):
            script.verify(path, key)
    elif case.rule != "E3":  # where the key is another one as well
        script.verify(path, key)


def test_what_is_left_out_is_written_down() -> None:
    """Both readers name the rules that they leave out."""
    said = (READER / "read.mjs").read_text().split("import crypto")[0].replace("\n//", "")
    for rule in ("M5", "G5", " R ("):
        assert rule in said
    page = (ROOT / "examples" / "verify_without_dpgraph.py").read_text().split('"""')[1]
    for rule in ("E3", "P1, P4, P5 and P6", "M3 and M5", "B, C, F, H, N, G, T, K and W", "D (", "R ("):
        assert rule in page


@pytest.mark.tools
@pytest.mark.parametrize("bundle", GOLDEN, ids=lambda path: path.stem)
def test_reader_in_javascript_reads_the_same_numbers(bundle: Path, said_by_node: dict[str, str]) -> None:
    """Run as its page says, it prints every stored bundle's noise variances and first rows, as ours has them."""
    pub = bundle.with_name(bundle.stem.replace("bundle", "test-key") + ".pub")
    done = subprocess.run(["node", READER / "read.mjs", bundle, pub], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    key = PublicKey.from_pem(pub.read_bytes())
    TrustStore().add(key, "test key")
    printed = [[float(each) for each in line.split("\t")] for line in done.stdout.splitlines() if "\t" in line]
    with open_bundle(bundle) as opened:
        assert f"signed by {key.fingerprint}" in done.stdout
        if opened.release.kind == "rows":
            (batch,) = opened.batches()
            rows = zip(*(batch.column(index).to_pylist() for index in range(batch.num_columns)), strict=True)
            assert printed == [list(row) for row, _ in zip(rows, range(5), strict=False)]
            for column in opened.release.columns:
                said = "" if column.response is not None else f"noise variance {column.cell_noise.variance!r}"
                replaced = f"levels replaced with probability {column.response.replaced!r}" if column.response else ""
                assert f'"{column.name}": {said}{replaced}' in done.stdout
        else:
            assert printed == opened.second_moments()[:5].tolist()
        if opened.release.kind == "covariance" and opened.release.margins is not None:
            _compare_histograms(done.stdout, json.loads(bundle.with_name(f"expected-{_name(bundle)}.json").read_text()))


def _compare_histograms(printed: str, expected: dict[str, Any]) -> None:
    """Compare the counts, shares and scores that the reader in JavaScript prints with those of a stored release."""
    found = [json.loads(line.removeprefix("histogram: ")) for line in printed.splitlines() if "histogram: " in line]
    assert [each["name"] for each in found] == [each["name"] for each in expected["margins"]]
    for ours, theirs in zip(found, expected["margins"], strict=True):
        assert (ours["counts"], ours["edges"]) == (theirs["counts"], theirs["edges"])
        assert ours["shares"] == pytest.approx(theirs["shares"], abs=1e-12)
        assert (ours["scores"] is None) == bool(theirs["labels"] and not theirs["edges"])
        if ours["scores"] is not None:
            assert ours["scores"] == pytest.approx(theirs["scores"], rel=1e-9, abs=1e-12)


def _name(bundle: Path) -> str:
    """Return the name of a stored bundle."""
    return bundle.stem.removeprefix("bundle-")


@pytest.mark.tools
def test_both_readers_judge_changed_manifests_alike() -> None:
    """Of 2000 changed manifests, each is accepted by both readers or by none, but for the curve of integer columns."""
    random = Random(15)
    honest = [Envelope.from_bytes(members_of(path)[MANIFEST_NAME]).payload for path in GOLDEN]
    payloads = [mutate_payload(random.choice(honest), random) for _ in range(2000)]
    lines = "".join(base64.b64encode(payload).decode() + "\n" for payload in payloads)
    judge = Path(__file__).with_name("payloads.mjs")
    done = subprocess.run(["node", judge], input=lines, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    outcomes = Counter[bool]()
    for payload, said in zip(payloads, done.stdout.splitlines(), strict=True):
        try:
            Statement.from_bytes(payload)
            refused = ""
        except BundleError as error:
            refused = str(error)
        outcomes[not refused] += 1
        if "a stated epsilon is smaller" not in refused:
            assert (said == "accepted") == (not refused), (said, refused)
    assert min(outcomes.values()) > 100


@pytest.mark.tools
def test_both_readers_judge_changed_data_alike(tmp_path: Path) -> None:
    """Of 300 bundles with changed Parquet files, soundly signed, each is accepted by both readers or by none.

    What a library for Zstandard makes of a damaged frame is its own: such files are left out.
    """
    random, files, accepted = Random(16), [], []
    for index in range(300):
        base = random.choice(GOLDEN).stem.removeprefix("bundle-")
        names = [name for name in members_of(GOLDEN[0].with_name(f"bundle-{base}.tar")) if name.startswith("data/")]
        files.append(tmp_path / f"{index}.tar")
        files[-1].write_bytes(rewritten(lambda content: mutate_member(content, random), random.choice(names), base)())
        try:
            _read(files[-1], UnsafeTrustAnyone())
            accepted.append(True)
        except BundleError as error:
            accepted.append(None if "ZSTD decompression" in str(error.__cause__) else False)
    judged = [
        (said, ours)
        for said, ours in zip(_ask_node(files), accepted, strict=True)
        if ours is not None and "invalid zstd data" not in said
    ]
    assert [said == "accepted" for said, _ in judged] == [ours for _, ours in judged]
    assert min(Counter(ours for _, ours in judged).values()) > 10
    assert len(judged) > 270
