"""A look at the columns before anything is spent: identifiers, columns that hardly vary, codes, bounds that do not fit.

What the first rows show is told to the publisher and to nobody else. No release depends on it, except that a release
which she would probably regret is refused until she insists.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import CellError
from dp_bundle.base.quoting import and_more, counted, listed
from dp_bundle.base.wording import IN_POLICY, IN_TABLE, LEAVE_OUT, Phrase
from dp_bundle.data.rows import batch_rows, to_numpy
from dp_publish.data.faults import UnfitError
from dp_publish.data.kinds import AS_IT_IS, ColumnType, Kinds
from dp_publish.data.table import Table
from dp_publish.data.typed import Cells, decoded, is_text
from dp_publish.policy.coded_columns import raw_names
from dp_publish.policy.model import Policy

_IDENTIFIER = re.compile(
    r"(?i:(?:.*[_\-. ])?(?:id|uuid|guid)|unnamed: 0|__index_level_[0-9]+__|)|.*[a-z0-9](?:Id|ID|Uuid|UUID|Guid|GUID)"
)
_PERSON = re.compile(  # people and households in several languages; groups are what makes an identifier of them
    r"(?i)(?:(?:(id)|no|nr|num|number|numero|número|numéro|code)[\W_]*(?:d[eu]|del|der|di|do|van)?[\W_]*)?"
    r"(?:pers(?:on)?|people|patient|pat|pt|subject|subj|participant|respondent|client|customer|cust|user|member|student"
    r"|pupil|employee|worker|citizen|resident|inhabitant|household|hh|family|child|infant|mother|donor|individual|indiv"
    r"|case|account|author|owner|driver|tenant|voter|insured|beneficiary|animal|couple|borrower|taxpayer|phone|name"
    r"|telephone|passport|imei|msisdn"
    r"|person(?:en|al)?|patient(?:en|in)?|kund(?:e|en|in)?|teilnehmer(?:in)?|proband(?:in|en)?|versicherter?|versicherten"
    r"|mitarbeiter(?:in)?|schüler(?:in)?|nutzer(?:in)?|haushalts?|familien?|mitglieds?|bürger|fall|einwohner|bewohner"
    r"|personne|patiente|cliente|usager|assuré|élève|ménage|foyer|famille|individu|sujet|adhérent|salarié|enquêté"
    r"|persona|pessoa|paciente|paziente|usuario|usuário|utente|alumno|aluno|alunno|hogar|familia|famiglia|sujeto"
    r"|soggetto|participante|partecipante|individuo|ciudadano|cidadão|cittadino|encuestado|empleado|hogares"
    r"|persoon|patiënt|klant|deelnemer|gebruiker|huishouden|gezin|leerling|medewerker|kund|deltagare|deltager|deltaker"
    r"|bruker|bruger|hushåll|husstand|elev|henkilö|potilas|asiakas|osoba|pacjent|klient|uczestnik|pacient|pacijent"
    r"|uczeń|uczen|pracownik|员工|学生|病人|会员|社員|従業員|학생|직원"
    r"|пациент|клиент|участник|человек|患者|顧客|客户|用户|ユーザー|利用者|会員|住民|个人|個人|환자|고객|사용자"
    r"|(pid|uid|ssn|mrn|codice[ _]fiscale)|nhs|e?-?mail|login"
    r"|username|pseudonym|kennung|identifi(?:er|ant|cador|cativo)|matricula|matrícula|dni|nif|cpf|iban)"
    r"(?:e?s)?[\W_]*"
    r"(id|no|nr|num|number|nummer|numero|número|numéro|code|key|hash|index|address|ssn|号|编号|番号|번호)?[\W_]*"
)
LEAST_ROWS = 20  # of which distinct whole numbers, or one value alone, are worth a word
_CELLS, _MOST_ROWS = 2**20, 10_000
_LONG_CODE = re.compile(r"-?(?:99+|9+\.9+|88+|77+)")
_SHORT_CODES = {-1.0, 0.0, 7.0, -7.0, 8.0, -8.0, 9.0, -9.0}
_MOST_CODES = 4  # at either end of a column
_MOST_OUTSIDE = 0.5  # share of a column's values
_SHOWN = 5  # columns
_NAMES = 20  # of a first line
_SAME = 0.99  # share of the values that are one and the same, which is then the median

ENDS = {  # dates that often stand for none, as days since 1970-01-01
    "0001-01-01": -719_162,
    "1899-12-30": -25_569,
    "1900-01-01": -25_567,
    "9999-12-31": 2_932_896,
}
_PER_DAY = {"date": 1, "time": 86_400}  # kinds of dates
_LEAVE_EACH_OUT = Phrase(
    "set drop = true for each in the policy (`dp-publish policy DATA` writes one)", "leave each out"
)
_LEAVE_ONE_OUT = Phrase("Set drop = true in the policy to leave one out", "Leave out what is one")
_SAY_WHOSE = Phrase('unit = { entity = "...", max_rows = ... }', "say above whose rows they are")
_COSTLY = "If all rows are alike, such a column costs privacy and shows next to nothing"
COSTLY = Phrase(f"{_COSTLY}: set drop = true in the policy", f"{_COSTLY}: leave it out")


@dataclass(frozen=True)
class Glance:
    """The first rows, which its repr does not show.

    Attributes
    ----------
    n_rows : int
        How many they are.
    values : dict of str to ndarray
        What each column holds in them, in order of size, without gaps; but for names of folders, of which the first
        rows show one.
    padded : tuple of str
        Columns of a text file with whole numbers that begin with zeros.
    """

    n_rows: int = field(repr=False)
    values: dict[str, Floats] = field(repr=False)
    padded: tuple[str, ...] = field(default=(), repr=False)


def as_stored(table: Table) -> Table:
    """Return a table whose columns are read as they are stored, whatever they are published as."""
    return replace(table, cells=Cells(table.cells.written))


def first_cells(table: Table, names: Iterable[str]) -> dict[str, pa.Array]:
    """Return the first cells of columns as they are stored, but for names of folders; none where rows are too few."""
    asked = [name for name in names if name not in table.partitions]
    rows = min(_MOST_ROWS, max(LEAST_ROWS, _CELLS // max(len(asked), 1)))
    batch = as_stored(table).head(dict.fromkeys(asked, AS_IT_IS), rows) if asked else None
    if batch is None or batch.num_rows < LEAST_ROWS:
        return {}
    return dict(zip(asked, map(decoded, batch.columns), strict=True))


def without_gaps(cells: pa.Array) -> pa.Array:
    """Return the cells that hold something."""
    kept = cells.drop_null()
    return kept.filter(pc.not_equal(kept, "")) if is_text(kept.type) else kept


def glance(table: Table, kinds: Kinds) -> Glance:
    """Read the first rows of the columns in `kinds`, about a million cells; too few to tell anything count as none."""
    rows = min(batch_rows(len(kinds)), max(LEAST_ROWS, _CELLS // len(kinds)))
    batch = table.head(kinds, rows)
    padded = _find_padded(table, kinds, rows)
    if batch is None or batch.num_rows < LEAST_ROWS:
        return Glance(0, {}, padded)
    asked = [name for name in kinds if name not in table.partitions]
    numbers = {name: to_numpy(batch.column(name).drop_null()).astype(float) for name in asked}
    return Glance(batch.num_rows, {name: np.sort(each[~np.isnan(each)]) for name, each in numbers.items()}, padded)


def glance_at_readable(
    table: Table, policy: Policy, kinds: Kinds
) -> tuple[Glance, Kinds, list[CellError | UnfitError]]:
    """Read the first rows of the columns that can be read; return these, too, and what is said of all others."""
    unread: list[CellError | UnfitError] = []
    while kinds:
        try:
            return glance(table, kinds), kinds, unread
        except (CellError, UnfitError) as error:
            unread.append(error)
            gone = {name for _, name, _ in error.faults}
            kinds = {
                name: kind for name, kind in kinds.items() if not {name, *raw_names([name], policy.sources)} & gone
            }
    return Glance(0, {}), kinds, unread


def _find_padded(table: Table, kinds: Iterable[str], rows: int) -> tuple[str, ...]:
    """Return the columns of a text file that are read as numbers, and have whole ones that begin with zeros."""
    numbers = {name: "text" for name in kinds if table.types[name] is ColumnType.UNKNOWN}
    batch = table.head(numbers, rows) if numbers else None
    if batch is None:
        return ()
    is_padded = {name: pc.match_substring_regex(batch.column(name), r"^\s*0\d+\s*$") for name in numbers}
    return tuple(name for name, found in is_padded.items() if pc.any(found, min_count=0).as_py())


def named_like_an_identifier(name: str) -> bool:
    """Return True for names that suggest identifiers of rows or people: id, patient_id, Kundennr, uuid and the like."""
    person = _PERSON.fullmatch(name.strip())
    return _IDENTIFIER.fullmatch(name.strip()) is not None or (person is not None and any(person.groups()))


def named_like_a_person(name: str) -> bool:
    """Return True for names of what people are called by, in several languages: person, Kundennr, id_cliente."""
    return _PERSON.fullmatch(name.strip()) is not None


def point_out_names(names: Iterable[str]) -> list[str]:
    """Return the warnings that column names alone give rise to."""
    found = [name for name in names if named_like_an_identifier(name)]
    return [_about_identifiers(found, "by name")] if found else []


def quote_header(table: Table, policy: Policy, names: Collection[str], *, sure: bool = True) -> list[str]:
    """Return the names that a text file's first line gives to published columns, unless the policy has them.

    If the line of names is missing, only a person can tell a row of words from names. The policy is as it was written,
    not resolved, and `names` are those of the raw table. Where what they hold is yet to be found, that is not `sure`.
    """
    if table.layout is None or not table.layout.has_header or policy.table.header is not None:
        return []
    unread = [name for name in names if name not in policy.columns]
    if not unread:
        return []
    shown, are = and_more([repr(name) for name in unread], _NAMES), "are" if sure else "may be"
    return [f"columns {are} published under these names, from the first line of the file: {shown}"]


def survey_columns(seen: Glance, policy: Policy, kinds: Collection[str]) -> list[str]:
    """Return the warnings about the columns that are about to be published.

    Parameters
    ----------
    seen : Glance
        Their first rows.
    policy : Policy
        Where declared bounds are; resolved.
    kinds : collection of str
        The columns.
    """
    notes, seen = point_out_names(raw_names(kinds, policy.sources)), _numbers_alone(seen, policy)
    numbers, constant = _numberings(seen), _constants(seen)
    where = f"in the first {seen.n_rows:,} rows"
    if numbers:
        notes.append(_about_identifiers(numbers, f"whole numbers that are all different {where}"))
    if constant:
        notes.append(f"columns that hardly vary {where}: {listed(constant)}. {COSTLY}")
    if seen.padded:
        notes.append(
            f"whole numbers that begin with zeros, as codes of places do, in the first rows: {listed([*seen.padded])}. "
            f'They are read as numbers, without these zeros: give such a column kind = "category"{IN_POLICY}, or '
            f"{LEAVE_OUT}"
        )
    codes = _codes(seen, policy, inside=True)
    if codes:
        notes.append(f"numbers that may stand for missing values, {where} and within the bounds: {_described(codes)}")
    return notes


def find_regrettable(table: Table, seen: Glance, policy: Policy, kinds: Collection[str]) -> list[str]:
    """Return the reasons why a release would probably be regretted, each as a sentence.

    Identifiers, and columns that hardly vary, of which the policy says nothing. Numbers outside of the bounds that may
    stand for missing values, and bounds outside of which most of a column lies. Truth values that are none.

    Parameters
    ----------
    table : Table
        Whose rows they are.
    seen : Glance
        The first of them.
    policy : Policy
        Where the bounds are; resolved.
    kinds : collection of str
        The columns to be published.
    """
    numbers = _numbers_alone(seen, policy)
    codes = [*_codes(numbers, policy, inside=False), *_ends(seen, policy)]
    coded = _complain_of_codes(codes, f"in the first {seen.n_rows:,} rows", in_text=table.layout is not None)
    return [said for said in (_unmeant(numbers, policy, kinds), coded, _misplaced(seen, policy)) if said]


def _numbers_alone(seen: Glance, policy: Policy) -> Glance:
    """Return the first rows without columns that stand for levels or dates, which look like numberings or are rare."""
    meant = {name for source in policy.sources for name in source.columns}
    return replace(seen, values={name: values for name, values in seen.values.items() if name not in meant})


def _unmeant(seen: Glance, policy: Policy, kinds: Collection[str]) -> str:
    """Return the complaint about suspicious columns, except those with declared bounds, which are meant."""
    privacy = policy.privacy
    if privacy.l2_radius is not None:
        return ""
    suspects = [name for name in kinds if named_like_an_identifier(name)] + _numberings(seen) + _constants(seen)
    unmeant = [name for name in kinds if name in suspects and policy.column(name).bounds is None]
    if not unmeant:
        return ""
    return (
        f"these columns resemble identifiers or hardly vary, and may not be meant to be published: {listed(unmeant)}; "
        f"{_LEAVE_EACH_OUT}, or declare bounds to publish it"
    )


def _complain_of_codes(codes: list[tuple[str, int, str]], where: str, *, in_text: bool) -> str:
    """Return the complaint about codes for missing values, which would be clipped, or widen bounds that are found."""
    if not codes:
        return ""
    words = ", ".join(f'"{code}"' for code in dict.fromkeys(code for code, *_ in codes))
    listing = f"set missing_values = [{words}]{IN_TABLE}"
    return (
        f"these values may stand for missing ones, {where}: {_described(codes)}; if they do, "
        f"{listing if in_text else 'empty those cells in the data'}; if not, give the column bounds that include them"
    )


def _ends(seen: Glance, policy: Policy) -> Iterator[tuple[str, int, str]]:
    """Yield dates outside of declared bounds that often stand for none, with cells and column."""
    for source in policy.sources:
        name, per_day = source.columns[0], _PER_DAY.get(source.kind)
        bounds = policy.column(name).bounds
        if per_day is None or bounds is None or name not in seen.values:
            continue
        days = np.floor_divide(seen.values[name], per_day)
        for date, day in ENDS.items():
            if (number := int(np.sum(days == day))) and not _is_within(day * per_day, bounds):
                yield date, number, name


def _misplaced(seen: Glance, policy: Policy) -> str:
    """Return the complaint about bounds that most of a column lies outside of, and about truth values that are none."""
    found = []
    for name, values in seen.values.items():
        bounds = policy.column(name).bounds
        if bounds is None or not len(values):
            continue
        outside = float(np.mean((values < bounds[0]) | (values > bounds[1])))
        two_values = bounds == (0.0, 1.0) and np.all(values == np.rint(values))
        if outside > (0.0 if two_values else _MOST_OUTSIDE):
            found.append(f"{outside:.0%} of {name!r} is outside {bounds[0]:g} to {bounds[1]:g}")
    if not found:
        return ""
    return (
        f"in the first {seen.n_rows:,} rows, {and_more(found, _SHOWN)}; clipping would leave little of that: correct "
        f"the bounds, the unit or the kind{IN_POLICY}"
    )


def _numberings(seen: Glance) -> list[str]:
    """Return the columns of whole numbers that are all different; those named like identifiers are known already."""
    found = _telling(seen, lambda each: bool(np.all(each == np.floor(each)) and np.all(each[1:] > each[:-1])))
    return [name for name in found if not named_like_an_identifier(name)]


def _constants(seen: Glance) -> list[str]:
    return _telling(seen, lambda ordered: float(np.mean(ordered == ordered[len(ordered) // 2])) >= _SAME)


def _telling(seen: Glance, is_so: Callable[[Floats], bool]) -> list[str]:
    """Return the columns with enough values, in order of size, of which something holds."""
    return [name for name, values in seen.values.items() if len(values) >= LEAST_ROWS and is_so(values)]


def _codes(seen: Glance, policy: Policy, *, inside: bool) -> list[tuple[str, int, str]]:
    """Return numbers that may stand for missing values, inside of declared bounds or not, with cells and column."""
    return [
        (f"{code:.12g}", number, name)
        for name, values in seen.values.items()
        for code, number in find_codes(values, policy.column(name).bounds).items()
        if inside == _is_within(code, policy.column(name).bounds)
    ]


def _described(codes: list[tuple[str, int, str]]) -> str:
    return and_more([f"{code} in {counted(number, 'cell')} of {name!r}" for code, number, name in codes], _SHOWN, "; ")


def _about_identifiers(names: list[str], how: str) -> str:
    return (
        f"possible identifiers ({how}): {listed(names)}. {_LEAVE_ONE_OUT}, or, if one person has several rows, "
        f"{_SAY_WHOSE}"
    )


def find_codes(values: Floats, bounds: tuple[float, float] | None) -> dict[float, int]:
    """Return the numbers that may stand for missing values, such as -999, and how often each of them occurs.

    They are written in nines, eights or sevens. They are farther from all other values than those are from one another,
    or below zero as no other. Or they are one digit and the only values outside of the bounds.

    Parameters
    ----------
    values : ndarray
        A column's values, in order of size.
    bounds : tuple of float, or None
        Its bounds, where they are declared.
    """
    numbers = dict(zip(*(each.tolist() for each in np.unique(values, return_counts=True)), strict=True))
    distinct = [*numbers]
    ends = sorted({*distinct[: _MOST_CODES + 1], *distinct[-_MOST_CODES - 1 :]})
    found: set[float] = set()
    for is_long in (True, False):
        coded = [
            value
            for value in (*ends[:_MOST_CODES], *ends[-_MOST_CODES:])
            if (_LONG_CODE.fullmatch(f"{value:.12g}") if is_long else value in _SHORT_CODES)
        ]
        others = [value for value in ends if value not in coded]
        if len(others) > 1:
            low, high = others[0], others[-1]
            alone = _is_within(low, bounds) and _is_within(high, bounds)
            found |= {
                value
                for value in coded
                if (
                    max(low - value, value - high) > high - low or value < 0 <= low
                    if is_long
                    else alone and not _is_within(value, bounds)
                )
            }
    return {value: numbers[value] for value in sorted(found)}


def _is_within(value: float, bounds: tuple[float, float] | None) -> bool:
    return bounds is not None and bounds[0] <= value <= bounds[1]
