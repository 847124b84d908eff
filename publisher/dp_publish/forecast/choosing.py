"""Which release, where neither the policy nor an option says so: second moments, which are told far better than rows.

Of n rows of p columns of standard deviation s in bounds of width w, the noise of rows leaves an error of at least
sqrt(2 p / n) s w / mu in a covariance, and that of second moments at most one of sqrt(2) p w^2 / (4 mu n). For rows to
be as good, n has to be below p w^2 / (4 s)^2, a few times the number of columns, where chance alone hides nearly all.
So rows are of whoever asks for them, and a weaker guarantee never shows less.
"""

from collections.abc import Collection

from dp_bundle.base.wording import typed
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Source, Table
from dp_publish.policy.columns import prepare
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import is_open

_CHOSEN = ("release", "mechanism", "neighbours", "sigma")  # entries that leave no choice
_WHY = "second moments are published, of which noise as a rule hides less than of noisy rows at the same price"
_OR_ROWS = typed("--release rows: rows, which any tool reads")


def choose_release(
    data: Source, policy: Policy, withheld: Collection[str] = (), *, opened: Table | None = None
) -> tuple[Policy, str]:
    """Return a policy that says what is released, and a sentence that says why; none where it was said before.

    Rows are of whoever asks for them, and of a single column, which has no correlations; of a text file, what its
    columns are is found privately.

    Parameters
    ----------
    data : path, pyarrow.Table or data frame
        The table, of which names, types and the number of rows are read.
    policy : Policy
        As it was written.
    withheld : collection of str
        Columns that are never published.
    opened : Table, optional
        The same table, if it is open.
    """
    privacy, rows = policy.privacy, _changed(policy, "rows", find=True)
    covariance = _changed(policy, "covariance")
    if privacy.model_fields_set & {*_CHOSEN} or privacy.unit == "change":
        if privacy.release != "rows" or privacy.model_fields_set & {*_CHOSEN[1:]} or not is_open(rows):
            return policy, ""
        types = prepare(data, rows, withheld, opened=opened).table.types
        return (rows if ColumnType.UNKNOWN in types.values() else policy), ""

    found = prepare(data, covariance, withheld, opened=opened).policy.sought if is_open(covariance) else None
    if found is None:
        return policy, ""
    if not in_two_rounds(covariance, dict.fromkeys(found.names, "continuous")):
        return (rows if found.looked else policy), ""
    return covariance, f"{_WHY}{_OR_ROWS}"


def _changed(policy: Policy, release: str, *, find: bool = False) -> Policy:
    privacy = policy.privacy.model_copy(update={"release": release})  # which counts as given from now on
    return policy.model_copy(update={"privacy": privacy, "find": find})
