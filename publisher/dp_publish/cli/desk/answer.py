"""What the desk answers to what is in its form: objections, the promise, what would be seen, and what it costs.

Everything is asked of the functions that the commands ask. Nothing is written, booked or drawn.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from dp_bundle.base.errors import CellError, DpGraphError, ParameterError, PolicyError, PrivacyError
from dp_bundle.base.wording import at_form
from dp_bundle.catalog.label import is_weak, worded_protection
from dp_bundle.describe.sentences import describe_hundred
from dp_publish.cli.desk.document import Fields, changed_policy
from dp_publish.cli.desk.table import Opened, open_for_desk
from dp_publish.cli.desk.words import GENERAL, capital, field_at
from dp_publish.data.dialect import Dialect
from dp_publish.data.faults import UnfitError
from dp_publish.data.table import Source
from dp_publish.forecast.checking import Findings, judge_declared, look_at_declared
from dp_publish.forecast.first_rows import left_out_by_first_rows, point_out_oddities, words_in_first_rows
from dp_publish.forecast.outlook import Outlook, describe_held, forecast
from dp_publish.forecast.page.texts import Spending, budget_of, budget_sentence, passes_budget
from dp_publish.forecast.plan import choose_release
from dp_publish.forecast.planned import PlannedRelease
from dp_publish.forecast.refusal import describe_findings
from dp_publish.forecast.strengths import forecast_each
from dp_publish.forecast.whose_rows import ask_whose
from dp_publish.ledger.alike import find_alike
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.choices import DEFAULT_SPREAD, STRENGTHS
from dp_publish.policy.columns import Prepared
from dp_publish.policy.file import parse_policy
from dp_publish.policy.mistakes import describe_mistakes, places_of
from dp_publish.policy.model import ColumnPolicy, Policy
from dp_publish.policy.open_columns import declares_no_values

Found = TypeVar("Found")
SLIDER = (0.1, 10.0)  # mu at its ends
_CURVE = tuple(SLIDER[0] * (SLIDER[1] / SLIDER[0]) ** (step / 40) for step in range(41))
_WIDE = 60  # columns, from which on a quarter of these is enough
_REFUSALS = (PolicyError, PrivacyError, ParameterError)
_USUAL = (
    "Noisy rows are published, as always where something is declared of columns and nothing of the release: choose "
    "second moments by hand where these show more."
)
_ALIKE = (
    " The dataset {!r} has the same columns, and an account of its own: if these are the same people, write its name "
    "under [dataset] in the policy, and open the desk again."
)
_CHOSEN = {
    "rows": "Noisy rows are published, as was chosen.",
    "covariance": "Second moments are published, as was chosen.",
}


@dataclass
class Answer:
    """What is said of one state of the form.

    Attributes
    ----------
    text : str
        The policy.
    objections : dict of str to list of str
        Why it cannot be published as it is, by field; those of no field are under "".
    refusals : list of str
        Why it would not be published unless she insists.
    remarks : list of str
        What her own first rows say, for her eyes only.
    choice : str
        What is published, and why.
    promise : dict or None
        What would be promised, in the words of the label; None where there is no such release.
    held : str
        What researchers would see, in words for everybody.
    shown : list of str
        The same in numbers, as a plan has it.
    outlook : Outlook or None
        The forecast at the stated strength.
    curve : list of Outlook
        The same at those of the slider.
    account : str
        What was spent, and what remains.
    left_out : dict of str to str
        Columns that are not published, and why.
    is_read : bool
        Whether `text` says all that is in the form, and is a policy.
    """

    text: str
    objections: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    choice: str = ""
    promise: dict[str, Any] | None = None
    held: str = ""
    shown: list[str] = field(default_factory=list)
    outlook: Outlook | None = None
    curve: list[Outlook] = field(default_factory=list)
    account: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    is_read: bool = True

    def object(self, where: str, said: str) -> None:
        """Add an objection, once."""
        if said not in self.objections.setdefault(where, []):
            self.objections[where].append(said)

    @property
    def can_publish(self) -> bool:
        """Whether nothing stands in the way but what she may insist on."""
        return not self.objections and self.promise is not None


class Desk:
    """One table, its policy as it was opened or saved last, and the ledger.

    Parameters
    ----------
    data : path
        The table.
    name : str
        The dataset's, if the policy gives none.
    text : str
        The policy.
    ledger : Ledger
        Where costs are kept; only read here.
    """

    def __init__(self, data: Source, name: str, text: str, ledger: Ledger) -> None:
        self.data, self.name, self.text, self.ledger = data, name, text, ledger
        self._dialect: Dialect | None = None
        self._kept: dict[str, tuple[object, Any]] = {}

    def _keep(self, what: str, of: object, find: Callable[[], Found]) -> Found:
        """Return what was found last, if it was found of the same, or find it."""
        if what not in self._kept or self._kept[what][0] != of:
            self._kept[what] = of, find()
        found: Found = self._kept[what][1]
        return found

    @property
    def opened(self) -> Opened:
        """The table, as it was read last; reading it costs one pass."""
        return self.open(self._dialect or parse_policy(self.text, "of the form", self.name).table)

    @at_form()
    def open(self, dialect: Dialect) -> Opened:
        """Read the table as a dialect has it, unless it was read so last."""
        opened = self._keep("opened", dialect, lambda: open_for_desk(self.data, dialect))
        self._dialect = dialect
        return opened

    @property
    def columns(self) -> list[str]:
        """The table's."""
        return list(self.opened.table.types)

    @property
    def reading(self) -> str:
        """A mark of the columns, which are numbered in the form, a blank, and one of how the file was read."""
        marks = (repr(self.columns), repr(self._dialect))
        return " ".join(hashlib.sha256(mark.encode()).hexdigest() for mark in marks)

    def fit(self, fields: Fields) -> Fields:
        """Read the table as the form has it, and return what still means something: columns of another reading do not.

        What is said of a text file that cannot be read is answered with the rest.
        """
        written = {name: said for name, said in fields.items() if name.startswith("table-")}
        if written:
            with suppress(PolicyError):
                self.open(parse_policy(changed_policy(self.text, (), written), "of the form", self.name).table)
        if fields.get("reading", self.reading).split()[:1] == self.reading.split()[:1]:
            return fields
        kept = {name: said for name, said in fields.items() if not name.startswith(("column-", "privacy-entity"))}
        return {**kept, "reading": self.reading}

    @at_form()
    def answer(self, fields: Fields) -> Answer:
        """Return what is said of the form."""
        fields = self.fit(fields)
        answer = Answer(changed_policy(self.text, self.columns, fields))
        try:
            self.opened.table.unchanged(self.opened.fingerprint)()
        except DpGraphError as error:
            answer.object(GENERAL, f"{error}: close the desk, and open it again.")
            return answer
        try:
            policy = parse_policy(answer.text, "of the form", self.name)
        except PolicyError as error:
            self._object_to(answer, error)
            answer.is_read = False
            return answer
        if self.opened.problem:
            self._object_to(answer, self.opened.problem)
            return answer
        if question := ask_whose(policy, self.opened.repeated):
            answer.object("privacy-unit", capital(question))
        prepared = self._prepare(answer, policy)
        if prepared is not None:
            self._judge(answer, prepared, insists=bool(fields.get("anyway")))
        return answer

    def _prepare(self, answer: Answer, policy: Policy) -> Prepared | None:
        """Choose what is released; a column that cannot be published gets its objection, and is passed over."""
        withheld, opened = self.ledger.entities(policy.dataset.name), self.opened.table
        while True:
            try:
                prepared, why = choose_release(self.data, policy, withheld, opened=opened)
                break
            except (DpGraphError, ValidationError) as error:
                about = self._object_to(answer, error)
                named = [name for name in about if name in self.columns and not policy.column(name).drop]
                if not named or len(named) == len(self.columns):
                    return None
                policy = _without(policy, named)
        answer.choice = " ".join(describe_choice(prepared.written, why, policy))
        answer.left_out = dict(prepared.left_out)
        return prepared

    def _object_to(self, answer: Answer, error: DpGraphError | ValidationError) -> list[str]:
        """Add what an error says beside the fields that it is about; return the columns that it names."""
        if isinstance(error, ValidationError):
            found = describe_mistakes(error)
        elif isinstance(error.__cause__, ValidationError):
            found = describe_mistakes(error.__cause__, places_of(error)[0])
        elif isinstance(error, ParameterError) and error.name in STRENGTHS:
            found = {("privacy", error.name): capital(str(error))}
        elif isinstance(error, CellError | UnfitError) and "." not in error.entry:  # one beside each column
            found = {("columns", fault[1]): capital(str(type(error)([fault]))) for fault in error.faults}
        else:
            found = dict.fromkeys(places_of(error), capital(str(error)))
        for place, said in found.items():
            answer.object(field_at(place, self.columns), said)
        return [name for section, name in (place[:2] for place in found if len(place) > 1) if section == "columns"]

    def _judge(self, answer: Answer, prepared: Prepared, *, insists: bool) -> None:
        """Add the promise, what would be seen, what it costs, and what stands in the way."""
        policy = prepared.policy
        try:
            row = forecast(policy, prepared.counted, self.opened.n_rows)
            answer.promise = promise_in_words(row.planned)
        except (*_REFUSALS, ValidationError) as error:
            self._object_to(answer, error)
            return
        judged = policy.privacy.neighbours.n_rows_public and not insists  # with the ways out, where it shows nothing
        privacy = policy.privacy.model_dump(exclude={"mu", "rho", "epsilon", "delta", "sigma", "budget_mu"})
        but_strength = policy.columns, policy.sources, privacy, prepared.counted
        answer.outlook = row
        answer.curve = self._keep("curve", but_strength, lambda: self._forecast_curve(row))
        answer.held, answer.shown = describe_held(row), describe_findings(row, None if judged else row)

        account, books, name = spending_of(self.ledger, policy), self.ledger.books(), policy.dataset.name
        answer.account = budget_sentence(account, row.planned.booked_mu)
        if passes_budget(account, row.planned.booked_mu):
            answer.object("privacy-budget_mu", answer.account)
        if known := self._keep("alike", (books.head, name), lambda: find_alike(books, name, self.columns)):
            answer.account += _ALIKE.format(known)
        found = self._look(answer, prepared, row, insists=insists)
        for fault in found.faults:
            self._object_to(answer, fault)
        answer.remarks += found.remarks
        answer.refusals = [str(regret) for regret in found.regrets]

    def _forecast_curve(self, row: Outlook) -> list[Outlook]:
        """Return the forecast at all strengths of the slider; none where none can be forecast."""
        planned = row.planned
        points = _CURVE if row.n_columns < _WIDE else _CURVE[::4]
        setting = planned.policy, planned.kinds, row.n_rows, points, DEFAULT_SPREAD, planned.mechanism_name
        with suppress(*_REFUSALS):
            return forecast_each(*setting)[0]
        return []

    def _look(self, answer: Answer, prepared: Prepared, row: Outlook, *, insists: bool) -> Findings:
        """Return what the first rows say, and the forecast; columns of words get what they say beside them."""
        policy = prepared.policy
        if policy.sought is None:
            of = policy.columns, policy.sources, policy.table, prepared.kinds
            first = self._keep("glance", of, lambda: look_at_declared(prepared))
            found = judge_declared(first, prepared, insists=insists)
            found.judge(row, prepared, first.seen)
            return found
        words, odd = self._keep("words", (policy.sought, policy.table), lambda: self._look_at_words(prepared))
        answer.left_out |= left_out_by_first_rows(policy, self.opened.n_rows, words)
        found = Findings([*odd], insists=insists)
        found.judge(row, prepared)
        error = self.opened.unread
        names = error.columns if isinstance(error, CellError) else self.columns
        if error is not None and any(not policy.column(name).drop and name not in answer.left_out for name in names):
            found.faults.append(error)
        return found

    def _look_at_words(self, prepared: Prepared) -> tuple[dict[str, Counter[str]], list[str]]:
        """Return the words in the first rows, and what is odd about these rows; nothing where they cannot be read."""
        if self.opened.unread is not None:
            return {}, []
        words = words_in_first_rows(prepared.table, prepared.policy, self.opened.n_rows)
        return words, point_out_oddities(prepared.table, prepared.kinds)


def spending_of(ledger: Ledger, policy: Policy) -> Spending:
    """Return what was spent on the policy's dataset, in its unit of privacy."""
    name, privacy = policy.dataset.name, policy.privacy
    books = ledger.books()
    budget, entries = budget_of(privacy, books.budgets.get(name, {})), books.standing(name)
    if not entries:
        return Spending(budget_mu=budget)
    spent = books.account(name).mu(privacy.account)
    return Spending(len(entries), spent, budget, any(entry.partition for entry in entries))


def promise_in_words(planned: PlannedRelease) -> dict[str, Any]:
    """Return the promise in the label's words, and how many of a hundred guesses are right."""
    label = worded_protection(planned.guarantee, planned.release, planned.columns)
    return {**label, "hundred": describe_hundred(label["right"]), "is_weak": is_weak(label["right"])}


def describe_choice(policy: Policy, why: str, written: Policy) -> Iterator[str]:
    """Yield what is published, why, and what follows from what is declared."""
    is_chosen = "release" in written.privacy.model_fields_set
    is_open = declares_no_values(policy)
    usual = _CHOSEN[policy.privacy.release] if is_chosen else "Noisy rows are published." if is_open else _USUAL
    yield f"{why[:1].upper()}{why[1:]}." if why else usual
    if not is_open:
        yield (
            "As something is declared of what columns hold, kinds and levels are not looked for: a column of words or "
            "dates has to have its kind declared, or is left out."
        )


def _without(policy: Policy, names: Iterable[str]) -> Policy:
    return policy.model_copy(
        update={"columns": {**policy.columns, **{name: ColumnPolicy(drop=True) for name in names}}}
    )
