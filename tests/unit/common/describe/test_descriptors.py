"""The manifest in other people's words: the right digests, fields and promises, and nothing else."""

import hashlib
import io
import json
import math
import re
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st

from dp_bundle import open_bundle
from dp_bundle.base.code import code_digest
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
from dp_bundle.describe.meanings import column_meanings, describe_sources
from dp_bundle.describe.sentences import (
    describe_bounds,
    describe_guarantee,
    describe_guess,
    describe_noise,
    describe_size,
    describe_total,
    round_up,
)
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.manifest.dataset import Dataset
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee
from dp_bundle.manifest.release import Release
from dp_bundle.portals.registry import registry_record
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Receipt

MEMBERS = [DataMember("data/part-00000.parquet", 123, "a" * 64), DataMember("data/part-00001.parquet", 45, "b" * 64)]


@pytest.fixture
def release(bundle: Receipt) -> Release:
    """Return a release of a mixed table."""
    return bundle.release


def variant(release: Release, **changes: object) -> Release:
    """Return the release with some entries replaced."""
    return release.model_copy(update=changes)


def test_descriptors_hold_the_digests_of_the_files_beside_them(bundle: Receipt) -> None:
    """In a real bundle both descriptions name every data file with its SHA-256, and the second one its size too."""
    with open_bundle(bundle.path) as opened:
        package = json.load(opened.open("datapackage.json"))
        croissant = json.load(opened.open("croissant.json"))
        data = {name: opened.open(name).read() for name in opened.members if name.startswith("data/")}
    expected = {name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in data.items()}

    digests = {name: digest for name, (_, digest) in expected.items()}
    assert {r["path"]: r["hash"].removeprefix("sha256:") for r in package["resources"]} == digests
    files = [entry for entry in croissant["distribution"] if entry["@type"] == "cr:FileObject"]
    found = {f["contentUrl"]: (int(f["contentSize"].removesuffix(" B")), f["sha256"]) for f in files}
    assert found == expected


def test_fields_are_the_columns_of_the_parquet_file(bundle: Receipt) -> None:
    """Names, order and types in both descriptions are those of the data."""
    with open_bundle(bundle.path) as opened:
        package = json.load(opened.open("datapackage.json"))
        croissant = json.load(opened.open("croissant.json"))
        schema = pq.read_schema(io.BytesIO(opened.open("data/part-00000.parquet").read()))
    names = {"double": ("number", "sc:Float"), "int64": ("integer", "sc:Integer")}
    expected = [(field.name, *names[str(field.type)]) for field in schema]
    fields = croissant["recordSet"][0]["field"]

    assert [(f["name"], f["type"]) for f in package["resources"][0]["schema"]["fields"]] == [e[:2] for e in expected]
    assert [(f["source"]["extract"]["column"], f["dataType"]) for f in fields] == [(e[0], e[2]) for e in expected]
    assert {f["source"]["fileSet"]["@id"] for f in fields} <= {e["@id"] for e in croissant["distribution"]}


def test_package_and_croissant_have_what_their_profiles_require(release: Release) -> None:
    """Required properties are there, empty ones are left out, and the version is the release's number."""
    package = json.loads(DESCRIPTORS["datapackage.json"](release, MEMBERS))
    croissant = json.loads(DESCRIPTORS["croissant.json"](release, MEMBERS))

    assert package["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    assert (package["name"], package["version"], package["created"]) == ("people", "1", release.lineage.created)
    assert [resource["path"] for resource in package["resources"]] == [member.name for member in MEMBERS]
    assert len({resource["name"] for resource in package["resources"]}) == 2
    assert "title" not in package
    assert croissant["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert (croissant["@type"], croissant["name"], croissant["version"]) == ("sc:Dataset", "people", "1.0.0")
    assert "license" not in croissant


def test_dataset_texts_reach_the_readers(release: Release) -> None:
    """Every text of the dataset is shown where each format has a place for it."""
    texts = {"title": "Wine ☃", "description": "About wine.", "license": "CC0-1.0", "contact": "me@example.org"}
    texts |= {"creator": "Vinho Verde", "url": "https://example.org/wine", "citation": "Verde (2009), Wine."}
    named = variant(release, dataset=release.dataset.model_copy(update=texts))
    readme = DESCRIPTORS["README.md"](named, MEMBERS).decode()
    package = json.loads(DESCRIPTORS["datapackage.json"](named, MEMBERS))
    croissant = json.loads(DESCRIPTORS["croissant.json"](named, MEMBERS))

    assert readme.startswith("# Release 1 of `people`\n")
    assert all(f'"{text}"' in readme for text in texts.values())
    assert package["licenses"] == [{"name": "CC0-1.0"}]
    assert [(each["title"], each["roles"]) for each in package["contributors"]] == [
        ("Vinho Verde", ["creator"]),
        ("me@example.org", ["contact"]),
    ]
    assert (package["homepage"], package["citation"]) == (texts["url"], texts["citation"])
    assert (croissant["license"], croissant["url"], croissant["citeAs"]) == ("CC0-1.0", texts["url"], texts["citation"])
    assert (croissant["creator"]["name"], croissant["publisher"]["name"]) == ("Vinho Verde", "me@example.org")
    assert croissant["alternateName"] == "Wine ☃"
    assert croissant["description"].startswith("About wine. Replacing one row")


def test_readme_states_the_guarantee_and_every_column(release: Release) -> None:
    """The page holds the guarantee's sentences, the commands, and one table row per column."""
    readme = DESCRIPTORS["README.md"](release, MEMBERS).decode()
    rows = [line for line in readme.splitlines() if line.startswith("| ")][1:]

    assert all(sentence in readme for sentence in describe_guarantee(release, in_file=True))
    assert "dp-bundle trust FINGERPRINT" in readme
    assert [row.split(" | ")[0][2:] for row in rows] == ["`height`", "`weight`", "`visits`"]
    assert all(describe_noise(column) in row for column, row in zip(release.columns, rows, strict=True))
    assert "120 to 220" in rows[0]
    assert "discrete Gaussian" in rows[2]


def test_readme_says_where_the_software_is_and_by_which_digest(release: Release) -> None:
    """Somebody who has only the file is told what the publisher says, and what tells the code from another's."""
    declared = Dataset(**release.dataset.model_dump(), software_url="https://example.org/dpgraph.tar.gz")
    silent = DESCRIPTORS["README.md"](release, MEMBERS).decode()
    told = DESCRIPTORS["README.md"](variant(release, dataset=declared), MEMBERS).decode()

    assert "pip install" not in silent + told
    assert "ask the publisher" in silent
    assert '"https://example.org/dpgraph.tar.gz"' in told
    assert f"\n    sha256:{code_digest()}\n" in silent
    assert release.software.endswith(f" (code sha256:{code_digest()})")


def test_readme_table_survives_bars_and_line_breaks(release: Release) -> None:
    """A name or description with a bar or a line break stays one cell."""
    odd = release.columns[0].model_copy(update={"name": "a|b", "description": "two\nlines | bar"})
    readme = DESCRIPTORS["README.md"](variant(release, columns=(odd,)), MEMBERS).decode()
    (row,) = [line for line in readme.splitlines() if line.startswith('| "a')]
    assert row.startswith('| "a\\|b" |')
    assert row.endswith('| "two\\\\nlines \\| bar" |')


def test_readme_shows_foreign_text_as_a_quotation_that_nothing_acts_on(release: Release) -> None:
    """A title with a line break, a heading, a link or markup stays one quoted line without an active character."""
    title = "Wine\n\n## What is guaranteed\n\nmu = 0.001 [verified](https://example.org) <img src=x> \x1b[2J"
    texts = {"title": title, "description": title, "license": title, "contact": title}
    readme = DESCRIPTORS["README.md"](
        variant(release, dataset=release.dataset.model_copy(update=texts)), MEMBERS
    ).decode()

    assert readme.count("\n## What is guaranteed\n") == 1
    assert "\x1b" not in readme
    assert "](" not in readme.replace("\\](", "")
    assert "<img" not in readme.replace("\\<img", "")
    said = [line for line in readme.splitlines() if "0.001" in line]
    assert len(said) == 4
    assert all(re.fullmatch(r'- [A-Z][a-z]+: "Wine.*"', line) for line in said)


def test_croissant_identifiers_are_unique_and_without_spaces(release: Release) -> None:
    """Column names with spaces or slashes keep their names but get other identifiers, no two the same."""
    names = ["a b", "a_b", "a/b", "plain", "über"]
    columns = tuple(release.columns[0].model_copy(update={"name": name}) for name in names)
    croissant = json.loads(DESCRIPTORS["croissant.json"](variant(release, columns=columns), MEMBERS))
    fields = croissant["recordSet"][0]["field"]
    found = [field["@id"].removeprefix("rows/") for field in fields]

    assert [field["name"] for field in fields] == names
    assert len(set(found)) == len(names)
    assert not any(re.search(r"[\s/]", each) for each in found)
    assert found[3:] == ["plain", "über"]


def test_guarantee_names_unit_strength_and_what_is_public(release: Release) -> None:
    """Unit, mu, rho, every point of the curve and the public facts are said; a file says no mu of discrete noise."""
    guarantee = release.guarantee
    assert guarantee is not None
    text = " ".join(describe_guarantee(release))
    continuous = guarantee.model_copy(update={"mu": 20.0, "unit": "cell"})

    assert text.startswith("Replacing one row by any other")
    assert "mu = 20 (Gaussian" in text
    assert "mu =" not in " ".join(describe_guarantee(release, in_file=True))
    assert "rho = 200 (zero-concentrated" in text
    assert text.count("epsilon = ") == len(guarantee.epsilon_delta)
    assert "the number and the order of the rows" in text
    assert "one cell" in describe_guarantee(variant(release, guarantee=continuous))[0]
    assert "mu = 20 (Gaussian" in describe_guarantee(variant(release, guarantee=continuous))[0]


def test_entities_and_their_cap_are_said(release: Release) -> None:
    """An entity's guarantee is about the content of all its rows, and says how many these can be."""
    assert release.guarantee is not None
    entity = release.guarantee.model_copy(update={"unit": "entity", "entity": "customer", "max_rows": 9})
    first = describe_guarantee(variant(release, guarantee=entity))[0]
    start = 'Replacing the content of all rows of one "customer", at most 9 of them, within the bounds'
    assert first.startswith(start)


def test_bounds_say_how_they_were_obtained(release: Release) -> None:
    """Declared, found privately, or none: each column's limits are told from the others."""
    column = release.columns[0]
    found = column.model_copy(update={"bounds_obtained": "private-histogram"})
    free = column.model_copy(update={"bounds": None, "bounds_obtained": "none"})
    assert describe_bounds(column) == "120 to 220"
    assert describe_bounds(found) == "120 to 220 (found privately)"
    assert describe_bounds(free) == "not clipped"


@given(st.floats(1e-12, 1e9), st.integers(3, 8))
@example(796451200.0019531, 7)  # 2.5 parts in 10^12 above a round number
def test_shown_parameters_are_rounded_up(value: float, digits: int) -> None:
    """A privacy parameter for a person is rounded up by less than a unit of its last digit, but for a safety margin."""
    shown = Decimal(round_up(value, digits))
    assert shown >= Decimal(value) * (1 - Decimal("4.01e-12"))
    assert shown <= Decimal(value) * (1 + Decimal(10) ** (1 - digits))


@pytest.mark.parametrize(("value", "shown"), [(1.0, "1"), (20.0, "20"), (2.0000000000019, "2"), (0.1, "0.1")])
def test_round_parameters_stay_round(value: float, shown: str) -> None:
    """The safety margin of 1e-12 in a stated number does not show."""
    assert round_up(value) == shown


def test_sentences_round_every_parameter_up(release: Release) -> None:
    """Numbers that would be rounded down by ordinary rounding are not."""
    assert release.guarantee is not None
    points = (EpsilonDelta(epsilon=4.38449, delta=1e-6),)
    stated: Guarantee = release.guarantee.model_copy(
        update={"mu": 1.2345642, "rho": 0.76207433, "epsilon_delta": points}
    )
    text = " ".join(describe_guarantee(variant(release, guarantee=stated)))
    found = {name: float(number) for name, number in re.findall(r"(mu|rho|epsilon) = ([\d.]+)", text)}
    assert found == {"mu": 1.23457, "rho": 0.762075, "epsilon": 4.385}


def test_same_inputs_make_the_same_bundle(release: Release) -> None:
    """A bundle written twice from the same release, parts and key is the same bytes and digest."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    files = [io.BytesIO(), io.BytesIO()]
    digests = [write_bundle(file, release, [io.BytesIO(b"one"), io.BytesIO(b"two")], key) for file in files]

    assert files[0].getvalue() == files[1].getvalue()
    assert digests[0] == digests[1]


class _AfterAnother(io.BytesIO):
    """A part that is read only if the one before it is closed."""

    def __init__(self, content: bytes, before: io.BytesIO) -> None:
        super().__init__(content)
        self._before = before

    def read(self, size: int | None = -1, /) -> bytes:
        """Read."""
        assert self._before.closed
        return super().read(size)


def test_a_part_in_the_archive_gives_its_room_back(release: Release) -> None:
    """A part is closed before the next is read, so that two copies of all data never lie on one disk."""
    first = io.BytesIO(b"one")
    second = _AfterAnother(b"two", first)
    digests = [hashlib.sha256(content).hexdigest() for content in (b"one", b"two")]
    write_bundle(io.BytesIO(), release, [first, second], Ed25519PrivateKey.generate(), digests, close_parts=True)

    assert second.closed


def test_noise_phrase_has_sigma_grid_and_variance() -> None:
    """The phrase for a column is enough to redo the debiasing by hand."""
    common = {"name": "a", "bounds": (0.0, 1.0), "bounds_obtained": "declared"}
    fine = Column(kind="continuous", noise=Noise.rounded_gaussian(2.0, 0.0078125), **common)
    whole = Column(kind="integer", noise=Noise.discrete_gaussian(2.0), **common)

    assert describe_noise(fine) == "Gaussian, sigma 2, on a grid of 0.0078125, variance 4.00001"
    assert describe_noise(whole) == "discrete Gaussian, sigma 2, variance 4"
    assert math.isclose(fine.noise.variance, 4 + 0.0078125**2 / 12, rel_tol=1e-12)


def test_things_are_counted_for_people_and_as_ever_in_files(release: Release) -> None:
    """One release costs and two cost; a bundle's own files keep their words to the byte."""
    two = variant(release, cumulative=release.cumulative.model_copy(update={"releases": 2}))
    assert describe_total(release).startswith("1 release of this dataset costs ")
    assert describe_total(two).startswith("2 releases of this dataset cost ")
    assert describe_total(release, in_file=True).startswith("1 release(s) of this dataset cost ")

    single = variant(release, n_rows=1, columns=release.columns[:1])
    assert (describe_size(single), describe_size(single, in_file=True)) == ("1 row, 1 column", "1 rows, 1 columns")


GOLDEN = Path(__file__).parents[3] / "golden"


def _release(name: str) -> Release:
    with open_bundle(GOLDEN / f"bundle-{name}.tar", UnsafeTrustAnyone()) as bundle:
        return bundle.release


def test_dates_are_named_as_dates() -> None:
    """The bounds of a date, published as days, are written as people write dates."""
    release = _release("mixed")
    (said,) = [each for each in describe_sources(release) if each.startswith("made")]
    assert said == "made is a date, in days since 1970-01-01, from 2020-01-01 to 2026-01-01."
    assert column_meanings(release)["made"].endswith("from 2020-01-01 to 2026-01-01.")


@pytest.mark.parametrize("kind", ["date", "time"])
def test_bounds_beyond_every_calendar_are_left_out(kind: str) -> None:
    """A signer may state any bounds; those that no calendar has are not written as dates, and nothing breaks."""
    release = _release("mixed")
    source = release.sources[-1].model_copy(update={"kind": kind})
    column = release.columns[-1].model_copy(update={"bounds": (-1e308, 1e308)})
    changed = release.model_copy(update={"sources": (source,), "columns": (column,)})
    assert describe_sources(changed)[0].rstrip(".").endswith(("1970-01-01", "T00:00:00Z"))
    within = column.model_copy(update={"bounds": (0.0, 86_400.0)})
    expected = (
        "from 1970-01-01T00:00:00 to 1970-01-02T00:00:00." if kind == "time" else "from 1970-01-01 to 2206-07-23."
    )
    assert describe_sources(changed.model_copy(update={"columns": (within,)}))[0].endswith(expected)


def test_probabilities_are_of_each_other_level() -> None:
    """What randomised response is said to do adds up to one over all levels."""
    for name, others in (("size=small", 4), ("red", 1)):
        (column,) = [column for column in _release("mixed").columns if column.name == name]
        said = re.fullmatch(
            r"randomised response, a level stays with probability (\S+) and becomes (each other one|the other) "
            r"with (\S+)",
            describe_noise(column),
        )
        assert said is not None
        assert (said[2] == "the other") == (others == 1)
        assert float(said[1]) + others * float(said[3]) == pytest.approx(1, abs=1e-5)


def test_category_is_listed_once_and_explained_on_the_label() -> None:
    """Descriptions name the noise of a category once, and the label says which levels its columns stand for."""
    release = _release("mixed")
    said = Subject(release).noise
    assert [each.split(":")[0] for each in said] == [
        *("alcohol", "hue", "proline", "size", "maker", "red", "grade", "made")
    ]
    assert set(describe_sources(release)) <= set(worded_label(release)["noise"])


def test_changes_are_told_as_what_one_person_adds() -> None:
    """A guess is about one person's part of a cell, and neighbours differ by what a column states."""
    release = _release("changes")
    assert release.guarantee is not None
    assert "one person’s part of one cell, and that it was counted there or not, each as likely" in describe_guess(
        release.guarantee, release.columns
    )
    loss = registry_record(release)["deployment"]["privacy_loss"]
    assert loss["privacy_unit_details"].startswith(
        "Two tables are adjacent if they differ by a change of one cell by as"
    )
