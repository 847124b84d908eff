"""The page's texts: on one strength, in whose place the slider puts those of another, and those that hold for all.

With them are the strengths of the slider, and the lines to type.
"""

import hashlib
import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.quoting import percent_at_least, percent_at_most, round_up
from dp_bundle.base.wording import Phrase
from dp_bundle.manifest.guarantee import Guarantee
from dp_publish.accounting.conversions import SLACK
from dp_publish.accounting.trade_off import TradeOff
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.forecast.outlook import TARGETS, Outlook, Sight
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.refusal import Pointless, describe_findings, why_pointless
from dp_publish.forecast.strengths import describe_count, printed_mu, takes_mu
from dp_publish.policy.choices import STRENGTHS
from dp_publish.policy.model import Privacy

_BETWEEN = (0.15, 0.3, 0.7, 1.3, 1.6, 2.5, 3.0, 4.0, 7.0, 15.0, 30.0)
_BETWEEN_DISCRETE = (1.5, 3.0)  # the exact curve of noise on integers takes about a second each


@dataclass(frozen=True)
class Position:
    """One strength.

    Attributes
    ----------
    row : Outlook
        What it would show, as in the terminal's tables.
    trade_off : TradeOff
        What it would leave to an attacker.
    pointless : {"hidden", "unchanged"} or None
        Why dp-publish would refuse such a release unless told --anyway.
    is_own : bool
        Whether it is the policy's own.
    """

    row: Outlook
    trade_off: TradeOff
    pointless: Pointless | None
    is_own: bool

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that it would have."""
        return self.row.planned.guarantee


def positions_of(plan: Plan) -> list[Position]:
    """Return the strengths of a plan's tables and some between them, by increasing mu; at least one, or raise why."""
    is_discrete = plan.release == "rows" and "integer" in plan.kinds.values()
    between = _BETWEEN_DISCRETE if is_discrete else _BETWEEN
    more = [mu for mu in between if not any(math.isclose(mu, row.mu, rel_tol=1e-6) for row in plan.rows)]
    rows: list[Outlook] = []
    with suppress(ParameterError, PrivacyError):  # none of them can be
        rows = plan.at(more)
    found: list[Position] = []
    for row in sorted([*plan.rows, *rows], key=lambda row: row.mu):
        with suppress(ParameterError, PolicyError, PrivacyError):  # there is no such release after all
            found.append(_position(plan, row))
    return found or [_position(plan, plan.focus)]  # which says why


def start_of(plan: Plan, positions: list[Position]) -> int:
    """Return the place of the strength that the plan is about."""
    return min(range(len(positions)), key=lambda place: abs(math.log(positions[place].row.mu / plan.focus.mu)))


def _position(plan: Plan, row: Outlook) -> Position:
    return Position(row, row.planned.trade_off, why_pointless(row, plan.table.types), row is plan.own)


_STRENGTHS = frozenset(f"--{name.replace('_', '-')}" for name in (*STRENGTHS, "delta"))
_OF_PLANS = frozenset({"--spread", "--report", "--look"})
_WITHOUT_EFFECT = frozenset({"--json", "--quiet"})


@dataclass(frozen=True)
class Spending:
    """The ledger's account of a dataset, in the plan's unit of privacy.

    Attributes
    ----------
    releases : int
        How many there were.
    spent_mu : float or None
        What they cost together; None where one of them does not protect the unit.
    budget_mu : float or None
        What all releases may cost together.
    in_parts : bool
        Whether some were of a part of the rows, whose costs do not add up with those of other parts.
    """

    releases: int = 0
    spent_mu: float | None = 0.0
    budget_mu: float | None = None
    in_parts: bool = False


@dataclass(frozen=True)
class Asked:
    """The options typed for a plan, and what the publisher was told besides it.

    Attributes
    ----------
    data : str
        The table's name, without its folder.
    typed : mapping of str to str
        The options as they were typed, with the names of files but not where they are; flags are empty.
    policy : Path or None
        The policy's file, if there is one.
    notes : sequence of str
        What publishing would say of names, or of the first rows.
    looked : bool
        Whether the first rows were read.
    account : Spending
        What the ledger has of the dataset.
    """

    data: str
    typed: Mapping[str, str] = field(default_factory=dict)
    policy: Path | None = None
    notes: Sequence[str] = ()
    looked: bool = False
    account: Spending = field(default_factory=Spending)

    @property
    def command(self) -> str:
        """The command that makes the same page."""
        return _spell(["dp-publish", "plan", self.data], _without(self.typed, _WITHOUT_EFFECT))

    @property
    def policy_sha256(self) -> str:
        """The digest of the policy's file."""
        return "" if self.policy is None else hashlib.sha256(self.policy.read_bytes()).hexdigest()

    @property
    def publishing(self) -> dict[str, str]:
        """The options that publishing takes as well."""
        return _without(self.typed, _WITHOUT_EFFECT | _OF_PLANS)


def budget_of(privacy: Privacy, known: Mapping[str, float]) -> float | None:
    """Return the budget in the policy's unit: the policy's own, or else the one in the ledger."""
    given = privacy.budget_mu
    stated = given.get(privacy.account) if isinstance(given, Mapping) else given
    return known.get(privacy.account) if stated is None else stated


def publish_line(plan: Plan, asked: Asked, position: Position) -> str:
    """Return the command that publishes at one strength."""
    options = asked.publishing
    if not position.is_own:
        options = _without(options, _STRENGTHS)
        if not takes_mu(plan.mechanism):
            options["--mechanism"] = Gaussian.name
        elif plan.is_pure and plan.policy.privacy.mechanism == "auto" and plan.mechanism is not None:
            options["--mechanism"] = plan.mechanism  # as mu alone would choose another one
        options["--mu"] = f"{position.row.mu:.6g}"
    return _spell(["dp-publish", asked.data], options)


def _without(options: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name not in names}


def _spell(words: Sequence[str], options: Mapping[str, str]) -> str:
    return shlex.join([*words, *(word for pair in options.items() for word in pair if word)])


CANDIDATES = (2, 10, 1000, 1_000_000)
SHARES = (0.05, 0.001)  # of releases, in which odds may rise by more
FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_NO_LIMIT = 1e9  # of odds
_LEAST_LEFT = 1e-3  # a smaller mu is as good as none
_SETS_BUDGET = Phrase(": budget_mu, in the policy, sets one", "")
_REFUSED = {
    "hidden": "dp-publish would refuse this release, as it would show nothing; --anyway insists.",
    "unchanged": "dp-publish would refuse this release, as noise so weak leaves whole numbers as they are; --anyway "
    "insists.",
}


def texts_of(plan: Plan, asked: Asked, position: Position) -> dict[str, str]:
    """Return the texts of one strength by their names in the template."""
    row, trade_off = position.row, position.trade_off
    texts = {
        "mu": printed_mu(row.mu),
        "own": "the policy’s own strength" if position.is_own else "",
        "shows": " ".join(describe_findings(row)),
        "budget": budget_sentence(asked.account, position.row.planned.booked_mu),
        "refused": _REFUSED.get(position.pointless or "", ""),
        "line": publish_line(plan, asked, position),
        "strength": _strength(position),
        "noise": _noise(row) if plan.release == "rows" else "",
    }
    for name, shown in {"rows": row.rows, "moments": row.moments}.items():
        texts[f"seen-{name}"] = _seen(shown)
        texts[f"error-{name}"] = _figure(shown.error)
        texts[f"drowned-{name}"] = "–" if shown.drowned is None else f"{shown.drowned} of {len(plan.kinds)}"
        for rho in TARGETS:
            texts[f"need-{rho:g}-{name}"] = describe_count(shown.needed[rho]) if rho in shown.needed else "–"
    pairs = position.guarantee.neighbours.n_rows_public  # or else any two are two steps apart
    texts["guess-two"] = percent_at_most(trade_off.right_of_two)
    for candidates in CANDIDATES:
        texts[f"guess-{candidates}"] = percent_at_most(trade_off.right_among(candidates, neighbours=pairs))
    for share in SHARES:
        texts[f"belief-{share:g}"] = _belief(trade_off, share)
    for alpha in FALSE_ALARMS:
        texts[f"power-{alpha:g}"] = percent_at_most(trade_off.power(alpha))
        texts[f"miss-{alpha:g}"] = percent_at_least(trade_off.type_2(alpha))
    shown_here = {name: text for name, text in texts.items() if row.moments.is_possible or "moments" not in name}
    curve = position.guarantee.epsilon_delta
    return {**shown_here, **{f"epsilon-{point.delta:g}": round_up(point.epsilon, 4) for point in curve}}


def trade_off_points(trade_off: TradeOff, alphas: Sequence[float]) -> list[float]:
    """Return type II errors for a figure, rounded down."""
    return [math.floor(trade_off.type_2(alpha) * 1e5) / 1e5 for alpha in alphas]


def _seen(shown: Sight) -> str:
    if not shown.needed:
        return "–"
    return "nothing" if shown.seen is None else f"{shown.seen:.2g} and above"


def _figure(error: float) -> str:
    if math.isnan(error):
        return "–"
    return f"{error:.2g}" if error < 100 else f"{error:,.0f}"


def _noise(row: Outlook) -> str:
    """Return how large the noise on a typical cell is."""
    share = row.sigma_over_width
    width = f"{share:.3g} times the width" if share >= 1 else f"{100 * share:.3g} % of the width"
    return (
        f"The noise on a typical cell has a standard deviation of {width} of its bounds, and {row.noise_to_signal:.3g} "
        "times the assumed variance of the values."
    )


def _strength(position: Position) -> str:
    """Return the guarantee's strength in the words of the field."""
    guarantee = position.guarantee
    if guarantee.epsilon is not None:
        excepted = f", except with a probability of {round_up(guarantee.excepted_delta, 3)}"
        pure = "" if guarantee.excepted_delta else "pure "
        return (
            f"epsilon = {round_up(guarantee.epsilon, 4)} ({pure}differential privacy)"
            f"{excepted if guarantee.excepted_delta else ''}, which implies mu = {round_up(position.row.mu, 4)}"
        )
    mu = position.row.planned.booked_mu if guarantee.mu is None else guarantee.mu
    rho = f"rho = {round_up(guarantee.rho, 4)} (zero-concentrated differential privacy)"
    return f"mu = {round_up(mu, 4)} (Gaussian differential privacy), {rho}"


def _belief(trade_off: TradeOff, share: float) -> str:
    """Return a sentence on how far belief in the truth rises, but for a share of releases."""
    factor, often = trade_off.odds_factor(share), round(1.0 / share)
    if factor > _NO_LIMIT:
        return f"In 1 of {often:,} releases, the attacker may become as good as certain of the truth."
    belief = percent_at_most(factor / (factor + 999.0))
    return (
        f"In at least {often - 1:,} of {often:,} releases, the attacker’s odds on the truth grow by at most a factor "
        f"of {_rounded_up(factor)}: a suspicion of 1 in 1,000 becomes {belief} or less."
    )


def _rounded_up(value: float) -> str:
    if value >= 1e6:
        return round_up(value, 2)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step * (1 - 1e-12)) * step:,.{max(0, -round(math.log10(step)))}f}"


def budget_sentence(account: Spending, booked_mu: float) -> str:
    """Return what is spent, what a release of this mu would make of it, and what would be left."""
    spent, budget = account.spent_mu, account.budget_mu
    if budget is None and not account.releases:
        return f"There is no budget for later releases yet{_SETS_BUDGET}."
    limit = "This dataset has no budget." if budget is None else f"The budget of this dataset is mu = {budget:g}."
    several = account.releases > 1
    n = f"{account.releases} release{'s' * several} so far"
    if spent is None:
        return f"{limit} Of its {n}, not all protect this unit: together they promise it nothing."
    so_far = (
        f"{n} cost{'s' * (not several)} mu = {round_up(spent, 4)}" if account.releases else "Nothing of it is spent"
    )
    if account.in_parts:
        return f"{limit} {so_far}. Releases of different parts of the rows cost in parallel."

    total = math.hypot(spent, booked_mu)
    said = f"{limit} {so_far}; with this one, the total would be {round_up(total, 4)}."
    if budget is None:
        return said
    if passes_budget(account, booked_mu):
        return f"{said} That is more than the budget: dp-publish would refuse this release."
    left = math.sqrt(max(budget**2 - total**2, 0.0))
    if left < _LEAST_LEFT:
        return f"{said} Nothing would be left."
    return f"{said} What is left would allow one more release at mu = {math.floor(left * 1000) / 1000:g}."


def passes_budget(account: Spending, booked_mu: float) -> bool:
    """Return whether a release of this mu would be refused for what all releases together would cost."""
    if account.budget_mu is None or account.spent_mu is None or account.in_parts:
        return False
    return math.hypot(account.spent_mu, booked_mu) > account.budget_mu * SLACK


def private_reasons(plan: Plan, asked: Asked) -> list[str]:
    """Return why the page is for the publisher alone; none where it rests on public facts."""
    reasons = []
    if asked.looked:
        reasons.append("It repeats what rows of the table show (--look).")
    if not plan.policy.privacy.neighbours.n_rows_public:
        reasons.append("It states the exact number of rows, which the release would protect.")
    return reasons
