"""Building blocks of a manifest: strict, frozen models without unknown fields, and bounded values.

Text is one line without control characters, so that no title or name can pass for a line of its reader's own.
"""

from typing import Annotated

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
