"""The same targets under atheris, which looks for inputs that reach new lines of `dp_bundle`.

`pip install atheris` where it is offered for the system, `python -m tests.fuzz.corpus corpus`, and then
`python -m tests.fuzz.harness archive corpus/archive`, or `manifest`, or `member`, with any option of libFuzzer.
"""

import importlib
import sys


def main() -> None:
    """Fuzz one target until something is wrong."""
    import atheris

    with atheris.instrument_imports(include=["dp_bundle"]):
        targets = importlib.import_module("tests.fuzz.targets")
    target = sys.argv.pop(1)
    seeds = targets.seeds()

    def read(content: bytes) -> None:
        if target != "member":
            {"archive": targets.read_archive, "manifest": targets.read_manifest}[target](content)
        elif content:  # the first byte says whose member it is
            targets.read_member(content[1:], seeds[content[0] % len(seeds)])

    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
