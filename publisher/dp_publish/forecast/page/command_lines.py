"""The lines to type: what made the page, and what would publish at one of its strengths; and the dataset's budget."""

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.forecast.page.positions import Position
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import takes_mu
from dp_publish.policy.choices import STRENGTHS
from dp_publish.policy.model import Privacy

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
