"""Which release, where neither the policy nor an option says so: second moments, which are told far better than rows.

Take n rows of p columns of standard deviation s in bounds of width w. The noise of rows leaves an error of at least
sqrt(2 p / n) s w / mu in a covariance. That of second moments is at most one of sqrt(2) p w^2 / (4 mu n). For rows to
be as good, n has to be below p w^2 / (4 s)^2. That is a few times the number of columns, where chance alone hides
nearly all. So rows are of whoever asks for them, and a weaker guarantee never shows less.
"""

from collections.abc import Collection

from dp_bundle.base.wording import typed
from dp_publish.covariance.calibration import in_two_rounds
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Source, Table, open_table
from dp_publish.policy.columns import Prepared, prepare
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import is_open

_CHOSEN = ("release", "mechanism", "neighbours", "sigma")  # entries that leave no choice
_WHY = "second moments are published, of which noise as a rule hides less than of noisy rows at the same price"
_OR_ROWS = typed("--release rows: rows, which any tool reads")


def choose_release(
    data: Source,
    policy: Policy,
    withheld: Collection[str] = (),
    *,
    opened: Table | None = None,
    may_search: bool = True,
) -> tuple[Prepared, str]:
    """Return the release of a policy that leaves it open, and its table, which is prepared once.

    Rows are of whoever asks for them, and of a single column, which has no correlations. Of a text file, what its
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
    may_search : bool
        Whether what columns are may be found privately; if not, the release is the policy's own.

    Returns
    -------
    prepared : Prepared
        The table, and the policy: as it was written, with the release, and resolved for its columns.
    why : str
        A sentence that says why this release; none where it was said before.

    Raises
    ------
    SchemaError, DataError, PolicyError
        The table and the policy do not go together.
    """
    table = open_table(data, policy.table) if opened is None else opened
    privacy, rows = policy.privacy, _changed(policy, "rows", find=True)
    covariance, chosen = _changed(policy, "covariance"), policy
    if privacy.model_fields_set & {*_CHOSEN} or privacy.unit == "change":
        is_left = privacy.release == "rows" and not privacy.model_fields_set & {*_CHOSEN[1:]} and is_open(rows)
        if may_search and is_left and ColumnType.UNKNOWN in table.types.values():
            chosen = rows
    elif may_search and is_open(covariance):
        prepared = prepare(data, covariance, withheld, opened=table)
        found = prepared.policy.sought
        if found is not None and in_two_rounds(covariance, dict.fromkeys(found.names, "continuous")):
            return prepared, f"{_WHY}{_OR_ROWS}"
        if found is not None and found.looked:
            chosen = rows
    return prepare(data, chosen, withheld, opened=table), ""


def _changed(policy: Policy, release: str, *, find: bool = False) -> Policy:
    return policy.with_privacy(release=release).changed(find=find)  # which counts as given from now on
