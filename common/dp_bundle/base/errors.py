"""Every error that this project raises on purpose.

Names end in Error. Each leaf carries what a caller needs to react. Its message is one sentence that says what is wrong
and what to do.

    DpGraphError
      ParameterError (also ValueError)   an argument, option or policy entry that is not allowed
        PolicyError                      the policy file as a whole, or what it leaves open
      DataError                          the table cannot be used as it is
        SchemaError                      its columns or types
          HeaderError                    a first line that may be a row instead of names
          CellError                      a cell of a text file that cannot be read
        MissingValuesError               cells without a value
      PrivacyError                       a bound, sensitivity or guarantee that cannot be honoured
        BudgetExceededError              the dataset's privacy budget does not allow this release
          MissingBudgetError             it has none in a unit in which protection is or was promised
      KeyStoreError                      a private key that is missing, locked or unreadable
      StoreError                         a folder, object store or web server that cannot be read or written
      ClosedBundleError (also ValueError) a bundle that is read after it was closed
      MemoryLimitError                   work that needs more memory than it may have
      BundleError                        do not trust this file: the one catch for everything untrusted
        BundleFormatError                not a bundle, damaged, or contradicting itself
        UnsupportedVersionError          another format version than this software reads
        DigestMismatchError              a member's bytes are not the signed ones
        BadSignatureError                the signature does not belong to the manifest
        UntrustedKeyError                signed by a key that the reader does not trust
          RevokedKeyError                signed by a key that was revoked
        KeyStatementError                a rotation or revocation of a key that cannot be accepted
        OlderReleaseError                a newer release of the same dataset has been seen already
        EquivocationError                another release of the same number has been seen already
        BrokenChainError                 releases in a folder do not follow each other
      EstimationError                    the numbers do not allow an answer
        NoSolutionError                  the penalised problem is unbounded at this alpha
        NotConvergedError                a solver stopped before its tolerance
        DrownedColumnError               too few columns whose debiased variance is positive
"""

import contextlib
import copyreg
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from dp_bundle.base.quoting import and_more, format_size, round_up
from dp_bundle.base.wording import IN_POLICY, Phrase

_SHOWN = 20  # columns, or breaks of a chain, that are named
_NOTHING: Any = object()
_SAY_HEADER = Phrase(
    "if it is a row, pass --header none; if it has names, --header first (or set header under [table] in the policy)",
    'if it is a row, choose header = "none"; if it has names, header = "first"',
)


class DpGraphError(Exception):
    """The root of the tree; `exit_code` is the exit code of a command that ends with this error.

    Attributes
    ----------
    entry : str
        The entry of a policy that it is about: "privacy.mu", or that of columns, such as "kind"; none if it is empty.
    columns : sequence of str
        The raw table's columns that it is about.
    """

    exit_code: ClassVar[int] = 1
    entry: str = ""
    columns: Sequence[str] = ()

    def __init__(self, message: str, entry: str = "", *columns: str) -> None:
        self.entry, self.columns = entry or self.entry, [*columns]
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        # A process may send it to another as it is.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


@contextlib.contextmanager
def errors_about(name: str, kind: type[DpGraphError]) -> Iterator[None]:
    """Begin the message of errors of a kind with what they are about, such as one of several files, if it is not said.

    Parameters
    ----------
    name : str
        What they are about.
    kind : type
        Those errors.
    """
    try:
        yield
    except kind as error:
        if name not in str(error):
            error.args = (f"{name}: {error}", *error.args[1:])
        raise


class ParameterError(DpGraphError, ValueError):
    """An argument that is not allowed.

    Parameters
    ----------
    name : str
        The argument's name.
    allowed : str
        What is allowed, in words or as an interval.
    received : object
        The value that was given; omitted if there was none, or if it would not help.
    """

    exit_code = 2

    def __init__(self, name: str, allowed: str, received: object = _NOTHING) -> None:
        self.name, self.allowed = name, allowed
        self.received = None if received is _NOTHING else received
        but = "" if received is _NOTHING else f", not {received!r}"
        super().__init__(f"{name} must be {allowed}{but}")


class PolicyError(ParameterError):
    """A policy that is unreadable, incomplete or contradicts itself; the message is a full sentence."""

    def __init__(self, message: str, entry: str = "", *columns: str) -> None:
        self.name = "policy"
        self.allowed = message
        self.received = None
        DpGraphError.__init__(self, message, entry, *columns)


class DataError(DpGraphError):
    """A table that cannot be used as it is."""


class SchemaError(DataError):
    """Columns or types on which the policy and the table disagree."""


class HeaderError(SchemaError):
    """A text file whose first line may be a person's record, which would be published as column names."""

    exit_code = 2
    entry = "table.header"

    def __init__(self, path: object, said: str) -> None:
        super().__init__(f"the first line of {path} may be a row instead of column names, as {said}: {_SAY_HEADER}")


class CellError(SchemaError):
    """Cells that cannot be read; the message says where they are and what is wrong with each, and never quotes one.

    Parameters
    ----------
    faults : sequence of tuple of (int, str, str)
        Of each cell its line, its column, and what is wrong with it.

    Attributes
    ----------
    faults : sequence of tuple
        Those.
    line : int
        The first.
    """

    def __init__(self, faults: Sequence[tuple[int, str, str]]) -> None:
        self.faults = faults
        self.line = min(line for line, _, _ in faults)
        places: dict[str, dict[int, list[str]]] = {}
        for line, name, fault in sorted(faults, key=lambda each: each[0]):
            places.setdefault(fault, {}).setdefault(line, []).append(name)
        said = []
        for fault, lines in places.items():
            where = [f"line {line}, column{'s' * (len(names) > 1)} {_named(names)}" for line, names in lines.items()]
            several = sum(map(len, lines.values())) > 1
            said.append(f"{and_more(where, _SHOWN)}: {'each' if several else 'the'} value {fault}")
        super().__init__("; ".join(said), "kind", *(name for _, name, _ in faults))


def _named(columns: Sequence[str]) -> str:
    return and_more([repr(name) for name in columns], _SHOWN)


class MissingValuesError(DataError):
    """Cells without a value in a column whose policy refuses them, or in the column that names entities.

    The remedies depend on whether rows are released or second moments (`of_moments`), and on whether
    the column is a category (`has_levels`). Of a text file, a row of nobody has its `line`.
    """

    def __init__(
        self,
        column: str,
        *,
        names_entities: bool = False,
        of_moments: bool = False,
        has_levels: bool = False,
        line: int | None = None,
    ) -> None:
        self.column = column
        known = "everybody then knows which rows have gaps"
        known += ', unless neighbours = "add-remove"' if of_moments else ""
        if has_levels:
            remedies = f'"category" for it{IN_POLICY}, which makes a gap a level of its own, or "drop" ({known})'
        elif of_moments:
            remedies = (
                f'"drop" for it{IN_POLICY} ({known}), or "indicator", which publishes where gaps are, or "midpoint" '
                '(of a category "category")'
            )
        else:
            remedies = (
                f'"indicator" for it{IN_POLICY}, which publishes where gaps are, with noise, or "drop" ({known}), '
                'or "midpoint" (of a category "category")'
            )
        said = (
            f"column {column!r} says whose rows are protected together, and has rows without a value"
            f"{'' if line is None else f', the first on line {line}'} (nothing, blanks, or a word for a gap, such as "
            "NA): fill them in, or remove those rows from the data"
            if names_entities
            else f"column {column!r} has missing values: set missing = {remedies}, or fill them before publishing"
        )
        super().__init__(said, "missing", column)


class PrivacyError(DpGraphError):
    """A bound, sensitivity or guarantee that cannot be honoured."""

    entry = "privacy.mu"


class BudgetExceededError(PrivacyError):
    """The dataset's privacy budget does not allow this release."""

    exit_code = 5
    entry = "privacy.budget_mu"

    def __init__(
        self,
        dataset: str,
        spent_mu: float | None,
        requested_mu: float | None,
        budget_mu: float,
        excepted: float = 0.0,
        *,
        unit: str | None = None,
    ) -> None:
        self.dataset, self.unit = dataset, unit
        self.spent_mu, self.requested_mu, self.budget_mu = spent_mu, requested_mu, budget_mu
        super().__init__(f"dataset {dataset!r} {self._reason(excepted)}")

    def _reason(self, excepted: float) -> str:
        """Return the rest of the sentence: what stands against the release, and what to do."""
        per = "" if self.unit is None else f" per {self.unit}"
        if self.requested_mu is None:
            if self.unit is None:
                return "has a budget, which a release without a guarantee would void: give a strength, such as mu"
            return (
                f"has a budget{per}, which a release that does not protect that unit would void: publish in that unit"
            )

        if self.spent_mu is None and excepted:
            return (
                "has releases whose guarantees fail with a total probability above what a budget allows, so nothing is "
                "left of it"
            )
        if self.spent_mu is None:
            return (
                f"has a release that does not protect {self.unit or 'this unit'}, so nothing is left of its budget{per}"
            )

        if excepted:
            return (
                f"has a budget, whose guarantee could then fail with a probability of {excepted:.3g}: publish with a "
                "smaller delta, or with a mechanism that has none"
            )
        return (
            f"has spent mu = {round_up(self.spent_mu)} of its budget of {self.budget_mu:.6g}{per}, which leaves no "
            f"room for a release at mu = {round_up(self.requested_mu)}: publish at a smaller mu, or raise budget_mu, "
            "which weakens the protection"
        )


class MissingBudgetError(BudgetExceededError):
    """The dataset has a budget, but none in a unit of privacy in which protection is or was promised."""

    def __init__(self, dataset: str, unit: str) -> None:
        self.dataset, self.unit = dataset, unit
        self.spent_mu = self.requested_mu = None
        self.budget_mu = 0.0
        DpGraphError.__init__(
            self,
            f"dataset {dataset!r} has a budget, but none per {unit}, a unit in which protection is or was promised: "
            f'also give budget_mu = {{ "{unit}" = ... }}{IN_POLICY}',
        )


class KeyStoreError(DpGraphError):
    """A private key that is missing, locked or unreadable."""


class StoreError(DpGraphError):
    """A folder, object store or web server that cannot be read or written; the message holds no credentials.

    Parameters
    ----------
    place : str
        Where, as a path or URI without a query.
    reason : str
        What stands against it.
    """

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(f"{place}: {reason}")


class ClosedBundleError(DpGraphError, ValueError):
    """A bundle that is read after it was closed."""

    def __init__(self) -> None:
        super().__init__("the bundle is closed: open it again")


class MemoryLimitError(DpGraphError):
    """Work that needs more memory than it may have; it was not begun.

    Parameters
    ----------
    work : str
        What it is for, as the beginning of a sentence.
    needed, allowed : int
        Bytes.
    from_machine : bool
        Whether the limit is what the machine has to give, rather than one that was asked for.
    remedy : str
        What else could be done than to allow more memory, if anything.
    """

    def __init__(self, work: str, needed: int, allowed: int, *, from_machine: bool, remedy: str = "") -> None:
        self.work, self.needed, self.allowed = work, needed, allowed
        size, whose = format_size(needed), "this machine can give" if from_machine else "the limit is"
        super().__init__(
            f"{work} may need {size} of memory, and {whose} {format_size(allowed)}: nothing was begun; "
            f"{remedy}{', or ' if remedy else ''}allow it with --max-memory {size} where there is as much"
        )


class BundleError(DpGraphError):
    """Do not trust this file: the one catch for everything untrusted."""

    exit_code = 3


class BundleFormatError(BundleError):
    """Not a bundle, damaged, possibly tampered with, or contradicting itself."""


class UnsupportedVersionError(BundleError):
    """A format version other than the one that this software reads."""

    def __init__(self, version: str, supported: str) -> None:
        self.version, self.supported = version, supported
        super().__init__(
            f"the bundle has format version {version}, and this dpgraph reads {supported}: use the one that made it"
        )


class DigestMismatchError(BundleError):
    """A member's bytes are not the ones that were signed."""

    def __init__(self, member: str) -> None:
        self.member = member
        super().__init__(f"{member} is not the file that was signed: the bundle was changed or damaged; fetch it again")


class BadSignatureError(BundleError):
    """The signature does not belong to the manifest."""


class UntrustedKeyError(BundleError):
    """Signed by a key that the reader does not trust."""

    def __init__(self, fingerprint: str, message: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(message)


class RevokedKeyError(UntrustedKeyError):
    """Signed by a key that was revoked, and not one of the releases that were verified here before."""


class KeyStatementError(BundleError):
    """A rotation or revocation of a key that cannot be accepted."""


class OlderReleaseError(BundleError):
    """A newer release of the same dataset by the same signer has been seen already."""

    def __init__(
        self, dataset: str, release: int, newest: int, *, received: str | None = None, seen: str | None = None
    ) -> None:
        self.dataset, self.release, self.newest = dataset, release, newest
        self.received, self.seen = received, seen
        super().__init__(
            f"this is release {release} of {dataset!r}{_with_manifest(received)}, and release {newest}"
            f"{_with_manifest(seen)} has already been seen here: fetch the newer one, or pass --allow-older (from "
            "Python allow_older=True)"
        )


def _with_manifest(digest: str | None) -> str:
    return "" if digest is None else f" with the manifest {digest[:12]}..."


class EquivocationError(BundleError):
    """Another release of the same dataset and number by the same signer has been seen already."""

    def __init__(self, dataset: str, release: int, seen: str, received: str) -> None:
        self.dataset, self.release, self.seen, self.received = dataset, release, seen, received
        super().__init__(
            f"this signer made two different releases {release} of {dataset!r}: the one seen here before has the "
            f"manifest {seen[:12]}..., this one {received[:12]}...; ask the publisher which one counts before using "
            "either"
        )


class BrokenChainError(BundleError):
    """The releases of a dataset in a folder are not one chain, or one of them is not to be trusted."""

    def __init__(self, dataset: str, problems: Sequence[str]) -> None:
        self.dataset = dataset
        self.problems = tuple(problems)
        shown = "; ".join(self.problems[:_SHOWN])
        rest = f"; and {len(self.problems) - _SHOWN} more" if len(self.problems) > _SHOWN else ""
        super().__init__(
            f"the releases of {dataset!r} are no unbroken chain: {shown}{rest}. Fetch what is missing, and ask the "
            "publisher which releases count"
        )


class EstimationError(DpGraphError):
    """The numbers do not allow an answer."""

    exit_code = 4


class NoSolutionError(EstimationError):
    """The penalised problem is unbounded at this alpha.

    The smallest alpha that has a solution may be given as a function, which is called once somebody asks for it. It
    takes longer to find than a solution, and whoever goes on with another alpha does without.
    """

    def __init__(self, alpha: float, smallest_alpha: float | Callable[[], float]) -> None:
        self.alpha, self._smallest_alpha = alpha, smallest_alpha
        super().__init__(
            f"the graphical lasso has no solution at alpha = {alpha:.6g} because the debiased covariance is too "
            "indefinite"
        )

    @property
    def smallest_alpha(self) -> float:
        """The smallest alpha that has a solution; inf where none has."""
        if callable(self._smallest_alpha):
            self._smallest_alpha = self._smallest_alpha()
        return self._smallest_alpha

    def __str__(self) -> str:
        remedy = (
            "not even an infinite alpha has one, as the unpenalised entries alone are indefinite: penalise more of them"
            if math.isinf(self.smallest_alpha)
            else f"the smallest alpha that has one is {self.smallest_alpha:.6g}"
        )
        return f"{self.args[0]}: {remedy}"

    def __reduce__(self) -> tuple[Any, ...]:
        _ = self.smallest_alpha  # as the function may not be sent
        return super().__reduce__()


class NotConvergedError(EstimationError):
    """A solver stopped before its tolerance; `solution` holds what it reached."""

    def __init__(self, message: str, solution: Any) -> None:
        self.solution = solution
        super().__init__(message)


class DrownedColumnError(EstimationError):
    """Fewer than two columns have a positive debiased variance."""

    def __init__(self, columns: list[str], message: str) -> None:
        super().__init__(message, "", *columns)
