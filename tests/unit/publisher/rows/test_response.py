"""Randomised response on a category's cells: where it is used."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_bundle.base.errors import PolicyError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Policy, publish


@pytest.mark.parametrize(("mechanism", "is_response"), [("gaussian", False), ("randomized-response", True)])
def test_mechanism_of_a_category_is_the_one_that_was_asked_for(
    mechanism: str, *, is_response: bool, home: Path, tmp_path: Path
) -> None:
    """A category has the noise that its section names, whichever is more accurate at this strength."""
    table = pd.DataFrame({"ward": ["north", "south", "west"] * 20, "sex": ["f", "m"] * 30})
    columns = {
        "ward": {"kind": "category", "categories": ["north", "south", "west"], "mechanism": mechanism},
        "sex": {"kind": "category", "categories": ["f", "m"], "mechanism": mechanism},
    }
    for mu in (0.5, 4.0):
        privacy = {"unit": "cell", "mu": mu}
        policy = Policy.model_validate({"dataset": {"name": "x"}, "privacy": privacy, "columns": columns})
        path = tmp_path / f"{mu}.tar"
        publish(table, policy, out=path, key=Ed25519PrivateKey.generate())
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            release = bundle.release
        assert [column.response is not None for column in release.columns] == [is_response] * 4
        assert release.sources[0].columns == ("ward=north", "ward=south", "ward=west")


@pytest.mark.parametrize("section", [{"kind": "ordered", "levels": ["low", "high"]}, {"bounds": [0, 1]}])
def test_mechanism_of_numbers_is_refused(section: dict[str, Any], home: Path, tmp_path: Path) -> None:
    """Places of ordered levels are numbers, and numbers are not replaced, so asking for it is refused."""
    values = ["low", "high"] if "levels" in section else [0, 1]
    columns = {"grade": {**section, "mechanism": "randomized-response"}}
    policy = Policy.model_validate({"dataset": {"name": "x"}, "privacy": {"mu": 1.0}, "columns": columns})
    with pytest.raises(PolicyError, match="mechanism, of column 'grade', is for categories"):
        publish(pd.DataFrame({"grade": values}), policy, out=tmp_path / "x.tar", key=Ed25519PrivateKey.generate())
    assert list(tmp_path.glob("x*")) == []
