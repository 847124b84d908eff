"""The digest of the code that runs, by which a copy of it from anywhere can be compared with what made a release.

It is the SHA-256 of a list, sorted by path, of the SHA-256 of each Python file of the four packages. In an unpacked
source archive, this prints it:

    for d in common consumer publisher; do (cd $d && find dp_* -name '*.py' | LC_ALL=C sort | xargs sha256sum); done \
        | sha256sum
"""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("dp_bundle", "dp_learn", "dp_audit", "dp_publish")  # in the order of an archive's folders, and in them


@cache
def code_digest() -> str:
    """Return the digest of the installed Python files, as 64 hexadecimal digits."""
    lines: list[str] = []
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
            files = {f"{package}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*.py")}
            ordered = sorted(files, key=lambda name: name.encode())
            lines += [f"{hashlib.sha256(files[name].read_bytes()).hexdigest()}  {name}\n" for name in ordered]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
