"""Print the least versions that pyproject.toml declares, as constraints for pip."""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
for requirement in map(Requirement, project["dependencies"]):
    (least,) = (part.version for part in requirement.specifier if part.operator == ">=")
    sys.stdout.write(f"{requirement.name}=={least}\n")
