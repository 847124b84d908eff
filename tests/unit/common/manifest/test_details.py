"""Further fields that portals ask for: strict in a policy, and harmless in a stranger's manifest."""

import pytest
from pydantic import ValidationError

from dp_bundle.manifest.dataset import Dataset, Details, dataset_details
from dp_publish import Policy


@pytest.mark.parametrize("orcid", ["0000-0002-1825-0097", "0000-0002-1694-233X", "0000-0001-5109-3700"])
def test_orcid_with_its_check_digit_is_accepted(orcid: str) -> None:
    """The iDs of ORCID's own documentation are accepted."""
    assert Details.model_validate({"creators": [{"name": "x", "orcid": orcid}]}).creators[0].orcid == orcid


@pytest.mark.parametrize("place", range(16))
def test_orcid_with_one_wrong_digit_is_refused(place: int) -> None:
    """ISO 7064 finds every single wrong digit."""
    digits = list("0000000218250097")
    digits[place] = str((int(digits[place]) + 1) % 10)
    text = "-".join("".join(digits[start : start + 4]) for start in range(0, 16, 4))
    with pytest.raises(ValidationError, match="check digit"):
        Details.model_validate({"creators": [{"name": "x", "orcid": text}]})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("creators", [{"name": "x", "orcid": "https://orcid.org/0000-0002-1825-0097"}], "no ORCID iD"),
        ("doi", "https://doi.org/10.1000/182", "no DOI"),
        ("themes", ["HEALTH"], "no theme"),
        ("languages", ["english"], "no language"),
        ("temporal", {"start": "2023-02-30", "end": "2024"}, "no date"),
        ("temporal", {"start": "2024", "end": "2023-12"}, "before it begins"),
        ("related", [{"relation": "IsDerivedFrom", "identifier": "somewhere"}], "neither a DOI"),
        ("keywords", ["two\nlines"], "control character"),
    ],
)
def test_what_portals_could_not_read_is_refused(name: str, value: object, said: str) -> None:
    """A policy with such a field is refused, and in a manifest the field alone is left out of descriptors."""
    with pytest.raises(ValidationError, match=said):
        Policy.model_validate({"dataset": {"name": "x", name: value}, "privacy": {"mu": 1}})
    if name != "keywords":  # which a manifest cannot hold either
        read = dataset_details(Dataset.model_validate({"name": "x", name: value, "publisher": "P"}))
        assert read == Details(publisher="P")


def test_creator_is_said_once() -> None:
    """One text follows from the list of creators, and without a list the text stands for one creator."""
    privacy = {"mu": 1}
    listed = {"name": "x", "creators": [{"name": "A"}, {"name": "B"}]}
    assert Policy.model_validate({"dataset": listed, "privacy": privacy}).dataset.published().creator == "A; B"
    with pytest.raises(ValidationError, match="not both"):
        Policy.model_validate({"dataset": {**listed, "creator": "A"}, "privacy": privacy})
    assert [each.name for each in dataset_details(Dataset(name="x", creator="A")).creators] == ["A"]
