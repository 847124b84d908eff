"""Bad bundles, each of which breaks one rule of docs/bundle-format.md: `python -m tests.bad_bundles.corpus FOLDER`.

It writes them as files, with `good.tar`, from which most were made, `index.json`, which gives the rule that each
breaks, and `publisher.pub`, the key that a reader is to trust. The same bytes come out every time.
"""

import json
import sys
from pathlib import Path

from tests.bad_bundles import of_data, of_liars, of_signers, of_strangers
from tests.bad_bundles.making import KEY, good

from dp_bundle.trust.signing import public_key_of

__all__ = ["CASES", "file_name", "write_corpus"]

CASES = [*of_strangers.CASES, *of_signers.CASES, *of_liars.CASES, *of_data.CASES]


def file_name(name: str) -> str:
    """Return the file's name of a case."""
    return f"{name.replace(' ', '-').replace(',', '').lower()}.tar"


def write_corpus(folder: Path) -> None:
    """Write all files into a new folder."""
    folder.mkdir(parents=True)
    (folder / "good.tar").write_bytes(good())
    (folder / "publisher.pub").write_bytes(public_key_of(KEY).to_pem())
    for case in CASES:
        (folder / file_name(case.name)).write_bytes(case.make())
    index = [{"file": file_name(case.name), "rule": case.rule, "what": case.name} for case in CASES]
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]))
