"""The policy: the publisher's decisions on names, unit of privacy, strength and bounds.

A policy is a TOML file beside the data (`data.policy.toml`) or a `Policy` made in Python. It is read strictly: an
unknown entry is an error, because a misspelt bound would be a missing one.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed, require_one_line
from dp_bundle.base.wording import MISSING_VALUES
from dp_bundle.manifest.columns import NO_VALUE, Name, Text
from dp_bundle.manifest.dataset import Dataset, Details
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP, Strength
from dp_publish.data.cells import missing_numbers
from dp_publish.data.dates import has_date, require_format
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import KINDS, Kind, KindName, WrittenSource
from dp_publish.policy.choices import OF_MOMENTS, STRENGTHS, Mechanism, ReleaseKind

_MAX_ROWS = 10**9  # of one entity
_MAX_INTEGER = 2**53  # beyond it, integers and their sums stop being exact as float64 for whoever reads them

_FARTHEST = 1e70  # of a number without bounds, so that products of four are still numbers
MAX_LEVEL = 200  # characters

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]  # strict: true is not 1, nor is "1"
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]


Unit = Annotated[str, Field(pattern=r"^(cell|row|change|entity:.+)$", strict=True)]  # as the ledger names it


def _as_word(level: Any) -> Any:
    """Return a level as its text: 1 and true are levels, too, and so are 1.0, which is 1, and 1.5."""
    if isinstance(level, float) and math.isfinite(level):
        return str(int(level)) if level.is_integer() else str(level)
    return str(level).lower() if isinstance(level, int) else level


def _number_of(bound: Any) -> Any:
    """Return a date as days since 1970-01-01, a moment as seconds since then, and a time as seconds since midnight."""
    if isinstance(bound, datetime.datetime):
        return (bound if bound.tzinfo else bound.replace(tzinfo=datetime.UTC)).timestamp()
    if isinstance(bound, datetime.date):
        return float((bound - datetime.date(1970, 1, 1)).days)
    if isinstance(bound, datetime.time):
        return bound.hour * 3600 + bound.minute * 60 + bound.second + bound.microsecond * 1e-6
    return bound


def _optional(description: str) -> Any:
    """Return the field of an entry that may be left out."""
    return Field(default=None, description=description)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def changed(self, **entries: Any) -> Self:
        """Return the same with other entries, which are not checked and count as given."""
        return self.model_copy(update=entries)


class EntityUnit(_Model):
    """All rows that carry the same value in the column `entity`, of which at most `max_rows` are published."""

    entity: Annotated[str, Field(min_length=1, strict=True)] = Field(
        description="the column whose values say which rows belong together; it is never published"
    )
    max_rows: Annotated[int, Field(ge=1, le=_MAX_ROWS, strict=True)] = Field(
        description="rows of an entity beyond this number are left out, at random"
    )


class Privacy(_Model):
    """The release, its unit of privacy, and its strength: exactly one of mu, epsilon, rho, sigma.

    Epsilon goes with delta, unless `release` is "covariance". That releases the second moments of the columns instead
    of rows, by a `mechanism`. Some of these give a pure epsilon, for one row replaced or (`neighbours` "add-remove")
    one row more or less. There `l2_radius` is what rows are shortened to, in half-widths of their columns' bounds.

    `scale` says what links of columns are of, and makes the release one of second moments in two rounds. They are of
    values ("raw"), of normal scores ("scores"), or of scores for the columns that it names. With "auto", as where
    nothing is said, they are of scores where a histogram shows that these suit a column.

    `sigma` is a standard deviation in data units, the same for every column. `budget_mu` limits all releases of the
    dataset together, in this release's unit or by unit ("cell", "row", "entity:" and its column).
    `bounds_share` is the part of rho that goes into finding bounds that the policy does not give.
    """

    release: ReleaseKind = Field(
        default="rows",
        description="noisy rows, or noisy second moments of the columns and, of enough rows, a histogram of each",
    )
    mechanism: Mechanism = Field(
        default="auto", description="of a covariance release; auto takes the one of the smallest expected error"
    )
    neighbours: Neighbours = Field(
        default=Neighbours.REPLACE_ONE,
        description="of a covariance release: whether one row is replaced, or comes or goes",
    )
    unit: Literal["cell", "row", "change"] | EntityUnit = Field(
        default="row", description="what one person contributes, and what is protected"
    )
    mu: Positive | None = _optional("Gaussian differential privacy")
    epsilon: Positive | None = _optional("with delta; alone it is a pure guarantee, of a covariance release")
    delta: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = _optional("goes with epsilon")
    rho: Positive | None = _optional("zero-concentrated differential privacy, mu^2 / 2")
    sigma: Positive | None = _optional("of rows: the same noise on every column, in data units")
    budget_mu: Positive | Annotated[dict[Unit, Positive], Field(min_length=1)] | None = _optional(
        "the most that all releases of the dataset may cost together"
    )
    bounds_share: Annotated[float, Field(gt=0, lt=1, strict=True)] = Field(
        default=0.1, description="the part of rho that finds bounds where a column has none"
    )
    l2_radius: Positive | None = _optional(
        "the length to which a covariance release of one round shortens rows, in half-widths of their "
        "bounds; at most sqrt(p) for p columns",
    )
    scale: Literal["auto", "raw", "scores"] | Annotated[tuple[str, ...], Field(min_length=1)] | None = _optional(
        "of two rounds: whether links are those of values or of normal scores; auto, as where it is not "
        "given, decides by each column's histogram",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_moments(cls, given: Any) -> Any:
        """Let a scale say that second moments are released."""
        has_scale = isinstance(given, dict) and given.get("scale") is not None
        return {"release": "covariance", **given} if has_scale else given

    @model_validator(mode="after")
    def _check(self) -> Privacy:
        given = [name for name in STRENGTHS if getattr(self, name) is not None]
        if len(given) != 1:
            found = "none of them" if not given else " and ".join(given)
            raise PolicyError(f"give exactly one strength (mu, epsilon with delta, rho or sigma), not {found}", "mu")
        is_pure = self.epsilon is not None and self.delta is None
        if (is_pure and not self.is_moments) or (self.delta is not None and self.epsilon is None):
            raise PolicyError("epsilon and delta go together: give both", "mu")

        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        of_moments = [name for name in OF_MOMENTS if getattr(self, name) != defaults[name]]
        if self.is_moments:
            one_round = [name for name in of_moments if name != "scale" and getattr(self, name) != "two-round"]
            self._check_moments([*one_round, *(["epsilon without delta"] if is_pure else [])])
        elif of_moments:
            raise PolicyError(
                f'only a covariance release has {" and ".join(of_moments)}: also give release = "covariance"', "release"
            )
        return self

    def _check_moments(self, one_round: list[str]) -> None:
        """Refuse what second moments have no use for; and, beside a scale, what makes one round of them."""
        if self.scale is not None and one_round:
            raise PolicyError(
                f"a scale is for two rounds, which do not go with {' and '.join(one_round)}: leave that out, or scale",
                "scale",
            )
        if self.unit == "change":
            raise PolicyError('unit = "change" is for rows: of second moments, give unit = "row"', "unit")
        if self.sigma is not None:
            raise PolicyError("a covariance release needs mu, rho, or epsilon with or without delta, not sigma", "mu")
        if self.unit == "cell" and not self.neighbours.n_rows_public:
            raise PolicyError(
                'with neighbours = "add-remove" whole rows are added or removed, not cells: give unit = "row"', "unit"
            )

    @property
    def is_moments(self) -> bool:
        """True if second moments are released, of the columns or of their normal scores, and no rows."""
        return self.release != "rows"

    def scored(self, names: Iterable[str]) -> frozenset[str] | None:
        """Return which raw columns have scores, of these or by name, None for those that scores suit."""
        if self.scale in (None, "auto"):
            return None
        if isinstance(self.scale, str):
            return frozenset(names if self.scale == "scores" else ())
        return frozenset(self.scale or ())

    @property
    def strength(self) -> Strength | None:
        """The promise to the unit of privacy; None where noise was given instead, by sigma."""
        if self.mu is not None:
            return GaussianDP(self.mu)
        if self.rho is not None:
            return ConcentratedDP(self.rho)
        if self.epsilon is None:
            return None
        return PureDP(self.epsilon) if self.delta is None else ApproximateDP(self.epsilon, self.delta)

    @property
    def entity(self) -> EntityUnit | None:
        """The unit of privacy where it is an entity."""
        return self.unit if isinstance(self.unit, EntityUnit) else None

    @property
    def owner(self) -> str | None:
        """The column that says whose each row is, if an entity is the unit."""
        return self.entity.entity if self.entity else None

    @property
    def max_rows(self) -> int:
        """The most rows that one unit of privacy has."""
        return self.entity.max_rows if self.entity else 1

    @property
    def unit_name(self) -> Literal["cell", "row", "entity", "change"]:
        """The unit of privacy in one word."""
        return "entity" if isinstance(self.unit, EntityUnit) else self.unit

    @property
    def account(self) -> str:
        """The unit of privacy as the ledger keeps it: an entity is named, as other entities are other units."""
        return f"entity:{self.unit.entity}" if isinstance(self.unit, EntityUnit) else self.unit


Level = Annotated[str, Field(min_length=1, max_length=MAX_LEVEL), AfterValidator(require_one_line), Strict()]
Levels = Annotated[tuple[Annotated[Level, BeforeValidator(_as_word)], ...], Field(min_length=2)]


class ColumnPolicy(_Model):
    """The decisions on one column.

    A column of `kind` "boolean" is an integer between 0 and 1, or, with `levels`, the words for no and yes. A
    "category" has `categories`, an "ordered" column its `levels` from the lowest on; values that are none of them are
    counted as `other`, or refused. A "date", "time" or "duration" is published as a number of days or seconds, and its
    bounds may be dates and times. `format` says, in the letters of strptime, how they are written in text, unless it is
    like 2026-01-31 12:30:00. `mechanism` is what a category is published by; by default what is more accurate.

    `bounds` are public knowledge, never read off the data. Each column gets a part of a row's mu^2 in proportion to its
    `weight`; cells have no use for it. In a covariance release of two rounds `center` and `scale` are public knowledge,
    which saves the cost of finding them.
    `spread` is what forecasts assume of the standard deviation, as a share of the bounds' width; it changes no noise.
    `missing` "category" makes gaps a level, and "other" counts them as `other`; "indicator" publishes beside a number
    where it has none. A word for gaps that is listed as a level is a value.
    """

    bounds: tuple[Finite, Finite] | None = _optional(
        "the range in which values are publicly known to lie; values outside are clipped"
    )
    weight: Annotated[float, Field(ge=1e-9, le=1e9, strict=True)] = Field(
        default=1.0,
        description="of rows: this column's part of a row's mu^2, in proportion to the other columns' weights",
    )
    center: Finite = Field(default=0.0, description="publicly known middle, with scale, for two rounds")
    scale: Positive = Field(default=1.0, description="publicly known standard deviation, with center")
    spread: Annotated[float, Field(ge=1e-6, le=0.5, strict=True)] | None = _optional(
        "the standard deviation that forecasts assume (0.14 if not given; of counts with a max_change, "
        "what independent cases have); it changes no noise",
    )
    kind: KindName | None = _optional("the column's type decides if it is not given, and text is left out")
    format: Text | None = _optional(
        "how dates or times are written in text, in the letters of strptime, unless like 2026-01-31 12:30:00",
    )
    categories: Levels | None = _optional("all values that may occur, as everybody knows, for a category")
    levels: Levels | None = _optional("the same for an ordered column, and the words for no and yes of a boolean")
    other: Level | None = _optional("the category that counts values which are not listed; they are refused otherwise")
    mechanism: Literal["gaussian", "randomized-response"] | None = _optional(
        "of a category: what is more accurate if it is not given"
    )
    unit: Text = Field(default="", description="of measurement")
    description: Text = Field(default="", description="what the column holds")
    missing: Literal["refuse", "midpoint", "drop", "category", "other", "indicator"] = Field(
        default="refuse",
        description='what becomes of cells without a value; "indicator" of numbers, whose gaps are then published '
        "beside them",
    )
    max_change: Annotated[int, Field(ge=1, le=_MAX_INTEGER, strict=True)] | None = _optional(
        'how far one person changes a count, with unit = "change"'
    )
    drop: bool = Field(default=False, description="true: the column is not published")

    @model_validator(mode="before")
    @classmethod
    def _read_dates(cls, given: Any) -> Any:
        """Read bounds that are dates or times as numbers of days or seconds."""
        bounds = given.get("bounds") if isinstance(given, dict) else None
        if not isinstance(bounds, list | tuple):
            return given
        kinds = {kind.name for kind in KINDS.values() for bound in bounds if type(bound) in kind.bounds}
        if not kinds:
            return given
        if kinds != {given.get("kind")}:
            raise PolicyError('bounds that are dates are for kind = "date", and times for kind = "time"', "bounds")
        return {**given, "bounds": [_number_of(bound) for bound in bounds]}

    @property
    def holds(self) -> Kind:
        """What its kind says; a column without one holds numbers."""
        return KINDS[self.kind or "number"]

    @property
    def levels_in_order(self) -> tuple[str, ...] | None:
        """The categories, or the levels."""
        return self.categories if self.categories is not None else self.levels

    @model_validator(mode="after")
    def _check(self) -> ColumnPolicy:
        self._check_levels()
        if self.format is not None:
            self._check_format(self.format)
        if self.missing == "indicator" and self.holds.is_truth:
            raise PolicyError(
                'missing = "indicator" is for numbers: give a truth value kind = "category" and missing = "category"',
                "missing",
            )
        if self.max_change is not None and self.kind not in (None, "integer"):
            raise PolicyError('max_change is for counts, which have kind = "integer"', "max_change")
        low, high = self.bounds or (-_FARTHEST, _FARTHEST)
        if not low < high or not math.isfinite(high - low):
            raise PolicyError(
                f"bounds must be [low, high] with low < high and a finite width, not [{low:g}, {high:g}]", "bounds"
            )
        whole = low.is_integer() and high.is_integer() and max(-low, high) <= _MAX_INTEGER
        if self.bounds and self.holds.is_whole and not whole:
            raise PolicyError(
                f"bounds of an integer column must be integers up to 2^53, not [{low:g}, {high:g}]", "bounds"
            )
        given = self.model_fields_set
        if "center" in given and not low <= self.center <= high:
            raise PolicyError(f"center must be within the bounds [{low:g}, {high:g}], not {self.center:g}", "center")
        if "scale" in given and self.scale > high - low:
            raise PolicyError(
                f"scale must be at most {high - low:g}, the width of the bounds, not {self.scale:g}", "scale"
            )
        return self

    def _check_format(self, form: str) -> None:
        """Refuse the format of what is no date or time, and one that is none."""
        if self.kind not in ("date", "time"):
            raise PolicyError('format goes with kind = "date" or "time"', "format")
        require_format(form)
        if self.kind == "date" and not has_date(form):
            raise PolicyError('format is one of times of the day: give kind = "time"', "format")

    def _check_levels(self) -> None:
        """Refuse a category without categories, levels that mean nothing, and what does not go with them."""
        kind, wanted, levels = self.holds, self.holds.levels, self.levels_in_order
        for name, usual in (("categories", "category"), ("levels", "ordered")):
            if getattr(self, name) is not None and name != wanted:
                raise PolicyError(f'{name} goes with kind = "{usual}"', "levels")
        if levels is None and kind.levels and not kind.is_truth:
            raise PolicyError(
                f'kind = "{self.kind}" needs {wanted} = ["...", "..."], public and not read off the data', "levels"
            )
        if levels is None and (self.other is not None or self.missing in ("category", "other")):
            raise PolicyError('other and missing = "category" are for columns with categories or levels', "missing")
        if self.missing == "other" and self.other is None:
            raise PolicyError('missing = "other" counts gaps as other: give other', "other")
        if levels is None:
            return

        if len(set(levels)) != len(levels):
            raise PolicyError(f"{wanted} must be different from one another", "levels")
        if self.missing == "category" and NO_VALUE in levels:
            raise PolicyError(
                f'{NO_VALUE!r} is the level of gaps under missing = "category": give the category another name',
                "levels",
            )
        if kind.is_truth and len(levels) != 2:
            raise PolicyError('levels of a boolean are two words: ["no", "yes"]', "levels")
        if self.bounds is not None:
            raise PolicyError(f"{wanted} already say what the column's bounds are: leave bounds out", "bounds")
        if self.missing in ("midpoint", "indicator") and not kind.has_order:
            raise PolicyError(
                'missing must be "refuse", "drop" or "category" for a category, which has no middle', "missing"
            )
        if kind.has_order and (self.missing == "category" or self.other is not None):
            raise PolicyError('other and missing = "category" are for kind = "category": levels have an order', "other")


class DatasetPolicy(Details, Dataset):
    """The publisher's description of her data, without unknown fields: in a policy one would be a misspelling."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Name = Field(description="the account in the ledger that releases are charged to")
    title: Text = Field(default="", description="a title for people")
    description: Text = Field(default="", description="what the table is about")
    creator: Text = Field(default="", description="who made the data")
    license: Text = Field(
        default="",
        description="an SPDX identifier such as CC-BY-4.0, or an address; without one nobody may reuse the data",
    )
    contact: Text = Field(default="", description="whom to ask: an e-mail address, or a page")
    url: Text = Field(default="", description="where people read about the data")
    citation: Text = Field(default="", description="how to cite the data")

    @model_validator(mode="after")
    def _check_creators(self) -> DatasetPolicy:
        if self.creator and self.creators:
            raise ValueError("give creator or creators, not both: the one text follows from the list")
        return self

    def published(self) -> Dataset:
        """Return what the manifest says: of the details, those that something is said of."""
        said = {name: value for name, value in self.model_dump(mode="json", exclude_unset=True).items() if value}
        creator = self.creator or "; ".join(each.name for each in self.creators)
        return Dataset(**{**said, "name": self.name, "creator": creator})


class Sought(NamedTuple):
    """The columns of which nothing is declared, so that it is found privately what they are.

    Attributes
    ----------
    looked : tuple of str
        Those of text, of which the kind is to be found.
    typed : tuple of str
        Numbers, dates and times, of which the gaps are to be counted.
    left_out : dict of str to str
        All others, and why.
    n_listed : int
        Of how many columns the levels are counted, as a forecast takes it: none of a text file's, all of others.
    """

    looked: tuple[str, ...]
    typed: tuple[str, ...]
    left_out: dict[str, str]
    n_listed: int

    @property
    def names(self) -> tuple[str, ...]:
        """All that may be published."""
        return (*self.looked, *self.typed)

    @property
    def square(self) -> float:
        """The squared sensitivity of all counts of looks and gaps together."""
        return 2.0 * len(self.looked) + len(self.typed)


class Policy(_Model):
    """Everything the publisher decided about one dataset.

    A name in `columns` with a `*` or a `?` may be a pattern, as `sections.resolve` has it. `table` says how a text file
    is written.
    """

    dataset: DatasetPolicy
    privacy: Privacy
    columns: dict[str, ColumnPolicy] = {}
    table: Dialect = Dialect()
    assumed: bool = False  # whether the strength is the default one
    like: str = ""  # the earlier release that decides on columns, in words
    find: bool = False  # whether what columns hold is found privately before rows are released
    sought: Sought | None = None  # what is counted privately before that, or before second moments
    finds_gaps: bool = False  # whether numbers whose gaps stand out in a histogram get an indicator of these
    sources: tuple[WrittenSource, ...] = ()  # what columns stand for, once `columns.resolve` has put numbers there

    @model_validator(mode="after")
    def _check(self) -> Policy:
        covariance = self.privacy.is_moments
        weighted = [name for name, entry in self.columns.items() if "weight" in entry.model_fields_set]
        if weighted and covariance:
            raise PolicyError(
                f"weight, of {listed(weighted)}, means nothing in a covariance release: leave it out",
                "weight",
                *weighted,
            )
        self._check_places()
        self._check_changes()
        self._check_words()
        return self

    def _check_words(self) -> None:
        """Refuse a word that is a level and a gap; of the usual words for gaps, a listed level takes its own."""
        words = self.table.missing_values
        gaps = {word.strip() for word in words}
        numbers = missing_numbers(words, self.table.decimal or ".")
        for name, entry in self.columns.items():
            levels = [level for level in (*(entry.levels_in_order or ()), entry.other) if level is not None]
            both = [level for level in levels if level.strip() in gaps or missing_numbers((level,), ".") & numbers]
            if both and not entry.drop:
                raise PolicyError(
                    f"{MISSING_VALUES} and the levels of column {name!r} both list {listed(both)}, and a "
                    "word is a value or a gap: leave it out of one of the two lists",
                    "levels",
                    name,
                )

    def _check_changes(self) -> None:
        """Refuse a max_change where changes are not the unit of privacy, and changes of columns that have none."""
        limited = [name for name, entry in self.columns.items() if entry.max_change is not None]
        if self.privacy.unit != "change":
            if limited:
                raise PolicyError(
                    f'max_change, of {listed(limited)}, is for unit = "change": give that, or leave it out',
                    "max_change",
                    *limited,
                )
            return
        if not limited:
            raise PolicyError(
                'unit = "change" needs max_change = 1, or more, for the columns of counts', "privacy.unit"
            )
        gaps = [name for name in limited if self.columns[name].missing != "refuse"]
        if gaps:
            raise PolicyError(
                f"counts with a max_change have no gaps, which no change accounts for: {listed(gaps)}", "missing", *gaps
            )

    def _check_places(self) -> None:
        """Refuse centers and scales where they mean nothing, and one without the other in a covariance release."""
        privacy, given = self.privacy, {"center", "scale"}
        placed = {name: entry.model_fields_set & given for name, entry in self.columns.items()}
        named = [name for name, fields in placed.items() if fields]
        if privacy.release == "rows":
            if named:
                raise PolicyError(
                    f"center and scale, of {listed(named)}, are for a covariance release: give bounds", "center", *named
                )
            return
        if named and (privacy.mechanism not in ("auto", "two-round") or privacy.l2_radius is not None):
            raise PolicyError(
                f"center and scale, of {listed(named)}, mean something only without l2_radius, for "
                'mechanism = "two-round": give bounds',
                "center",
                *named,
            )
        half = [name for name, fields in placed.items() if fields and fields != given]
        if half:
            raise PolicyError(
                f"center and scale go together in a covariance release: give both for {listed(half)}", "center", *half
            )

    def with_privacy(self, **changes: Any) -> Policy:
        """Return the policy with these entries in its privacy section."""
        return self.changed(privacy=self.privacy.changed(**changes))

    def column(self, name: str) -> ColumnPolicy:
        """Return what a column's own section says, by default for one that has none; see `sections.resolve`."""
        return self.columns.get(name, _DEFAULT_COLUMN)


_DEFAULT_COLUMN = ColumnPolicy()
