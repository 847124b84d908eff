"""Print the newest Python on this machine: of all on the search path, and of pyenv's."""

import os
import subprocess
import sys
from pathlib import Path

folders = [Path(folder) for folder in os.get_exec_path()]
folders += Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin")
found = [((*sys.version_info[:3],), sys.executable)]
for program in {path for folder in folders for path in folder.glob("python3.[1-9][0-9]")}:
    asked = [program, "-c", "import ensurepip, sys; print(*sys.version_info[:3])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    if answer.returncode == 0:  # pyenv leaves stand-ins on the path that start nothing
        found.append((tuple(map(int, answer.stdout.split())), str(program)))
sys.stdout.write(f"{max(found)[1]}\n")
