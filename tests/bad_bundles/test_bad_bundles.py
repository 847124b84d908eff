"""Bundles that break one rule each are refused, by our reader and by the short script."""

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from tests.bad_bundles.corpus import CASES, file_name, write_corpus
from tests.bad_bundles.making import KEY, Case, good
from tests.tamper.archives import read_all

from dp_bundle import BundleError, open_bundles
from dp_bundle.trust.judging import TrustPolicy, UnsafeTrustAnyone
from dp_bundle.trust.signing import public_key_of
from dp_bundle.trust.store import TrustStore

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("bundle-*.tar"))
PAGE = (ROOT / "docs" / "bundle-format.md").read_text()
WITHOUT_A_FILE = {"D8", "R1", "R2"}  # a very large file, and what depends on the files seen before
CHECKED_BY_SCRIPT = {"A1", "A2", "A3", "A4", "E1", "E2", "E4", "P2", "P3", "M1", "M2", "M4"}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the bad bundles."""
    folder = tmp_path_factory.mktemp("corpus") / "bad"
    write_corpus(folder)
    return folder


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


def _read(path: Path, trust: TrustPolicy | None = None) -> None:
    """Open a bundle as dp-learn does, which asks for its shape, and read all of its numbers."""
    (bundle,) = open_bundles([path], trust, require_shape=repr)
    with bundle:
        read_all(bundle)


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.name}")
def test_short_script_refuses_what_is_not_as_it_was_signed(case: Case, corpus: Path, script: ModuleType) -> None:
    """The script refuses by the very rule what it checks, and accepts the rest, as its page says."""
    path, key = corpus / file_name(case.name), public_key_of(KEY).raw
    if case.rule in CHECKED_BY_SCRIPT:
        with pytest.raises(script.RefusedError, match=rf"^[^:]*\b{case.rule}\b"):
            script.verify(path, key)
    elif case.rule != "E3":  # where the key is another one as well
        script.verify(path, key)
