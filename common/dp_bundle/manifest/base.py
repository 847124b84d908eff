"""Building blocks of a manifest: strict, frozen models without unknown fields, and bounded values.

Text is one line without control characters, so that no title or name can pass for a line of its reader's own.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dp_bundle.base.quoting import require_one_line

Text = Annotated[str, Field(max_length=10_000), AfterValidator(require_one_line)]
Name = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(require_one_line)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Model(BaseModel):
    """Base of all entries."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


FORMAT_VERSION: Literal["8"] = "8"
_CODE = re.compile(r"(?P<name>.+) \(code sha256:(?P<digest>[0-9a-f]{64})\)")  # how `software` states the code


def software_with_code(name: str, digest: str) -> str:
    """Return what `software` states of a name with its version, and the digest of the code."""
    return f"{name} (code sha256:{digest})"


def split_software(software: str) -> tuple[str, str | None]:
    """Return the name and version that `software` states, and the digest of the code; the inverse of the above."""
    found = _CODE.fullmatch(software)
    return (found["name"], found["digest"]) if found is not None else (software, None)
