"""The public surface under strict types: a script that uses all of it, and what pyright says of that script.

    make test-types

The script takes every name of the packages' `__all__`, and of every class what its objects have: its public methods,
properties and fields that are ours. Pyright (basedpyright, in its mode `strict`) reports each whose type is not wholly
known to a user's editor; an error fails. Pyright, and types of pyarrow, are in an environment of their own, where
mypy does not see them.
"""

import importlib
import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("dp_bundle", "dp_publish", "dp_learn")
ROOT = Path(__file__).parent.parent


def members_of(kind: type) -> list[str]:
    """Return the public attributes that objects of a class have by one of our packages."""
    ours = [each for each in kind.__mro__ if each.__module__.split(".")[0] in PACKAGES]
    from_sklearn = {name for name in dir(kind) if name.startswith("set_") and name.endswith("_request")}
    names = {name for each in ours for name in [*vars(each), *inspect.get_annotations(each)]}
    return sorted(name for name in names if not name.startswith("_") and name not in from_sklearn)


def script() -> Iterator[str]:
    """Yield the lines of a script that uses the whole surface."""
    for package in PACKAGES:
        yield f"import {package}"
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            found, number = getattr(module, name), f"{package}_{name}"
            if not inspect.isclass(found):
                yield f"{number} = {package}.{name}"
                continue
            yield f"def use_{number}(one: {package}.{name}) -> None:"
            yield from (
                f"    {number}_{member} = one.{member}; print({number}_{member})" for member in members_of(found)
            )
            yield f"    print(one, {package}.{name})"


def main() -> int:
    """Check the script, print what is wrong with it, and return how much that is."""
    lines, environment = [*script()], Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "surface.py").write_text("\n".join([*lines, ""]))
        paths = [str(ROOT / name) for name in ("common", "publisher", "consumer")]
        paths += [str(each) for each in environment.glob("lib/python*/site-packages")]
        rules = {"typeCheckingMode": "strict", "include": ["surface.py"], "extraPaths": paths}
        Path(folder, "pyrightconfig.json").write_text(json.dumps(rules))
        command = [
            str(environment / "bin" / "basedpyright"),
            "--project",
            folder,
            "--pythonpath",
            sys.executable,
            "--outputjson",
        ]
        told = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)  # noqa: S603

    errors = [each for each in told["generalDiagnostics"] if each["severity"] == "error"]
    for each in errors:
        print(lines[each["range"]["start"]["line"]].strip(), "\n ", each["message"])
    print(f"{len(errors)} errors in {len(lines):,} uses of the public surface, of 0 at most")
    return len(errors)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
