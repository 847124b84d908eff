"""The files that a fuzzer begins with, honest and hostile: `python -m tests.fuzz.corpus FOLDER` writes them.

They are made by code, so that it is plain what is wrong with each, and no bomb lies about.
"""

import sys
from functools import cache
from pathlib import Path

from tests.fuzz import targets
from tests.fuzz.hostile import PARTS, triangle_of_one_label


@cache
def corpus(target: str) -> dict[str, tuple[bytes, targets.Seed]]:
    """Return the content of each file by its name, and the honest bundle that it goes with."""
    seeds = {seed.name: seed for seed in targets.seeds()}
    one, triangle = seeds["one"], seeds["gaussian"]
    if target == "archive":
        return {name: (seed.archive, seed) for name, seed in seeds.items()}
    if target == "manifest":
        return {name: (seed.payload, seed) for name, seed in seeds.items()}
    honest = {name: (seed.member, seed) for name, seed in seeds.items()}
    label = triangle_of_one_label(triangle.release.labels, triangle.member)
    return honest | {name: (make(), one) for name, make in PARTS.items()} | {"one label": (label, triangle)}


def main() -> None:
    """Write the files into a folder for each target."""
    from tests.fuzz.bombs import BOMBS

    for target in ("archive", "manifest", "member"):
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, (content, _) in corpus(target).items():
            (folder / name).write_bytes(content)
    for name, content in BOMBS.items():  # which tests/tamper measures, each in a process of its own
        (Path(sys.argv[1]) / "manifest" / name).write_bytes(content)


if __name__ == "__main__":
    main()
