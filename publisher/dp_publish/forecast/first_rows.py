"""The columns of a table of which nothing is declared, as its first rows look, for the publisher alone."""

from collections import Counter
from collections.abc import Mapping

from dp_bundle.base.quoting import counted
from dp_bundle.base.wording import A_POLICY
from dp_publish.data.table import Table
from dp_publish.discovery.finding import HARDLY_ANY, HELD, LEAST_LEVEL, NAMES, ONE_LEVEL, TOO_RARE, Counted, Steps
from dp_publish.discovery.levels import count_values
from dp_publish.discovery.looks import LOOKS, Look, count_looks, read_answers
from dp_publish.forecast.advice import least_mu
from dp_publish.forecast.assumptions import MOSTLY, least_level, sought_of
from dp_publish.forecast.outlook import forecast
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import describe_weaker
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy
from dp_publish.policy.open_columns import reasons

_ROWS = 10_000
_LEAST = 2  # columns of second moments


def words_in_first_rows(table: Table, policy: Policy, n_rows: int) -> dict[str, Counter[str]]:
    """Return the values of every column that the search would take for words, in the first rows, which are private.

    A column with hardly any value is among them, and has none.
    """
    found: dict[str, Counter[str]] = {}
    sought, missing = sought_of(policy), table.cells.written.missing
    asked = dict.fromkeys(sought.looked, "text")
    batch = table.head(asked, _ROWS) if asked else None
    sigma = Steps(policy, sought, n_rows).counts.sigma if asked else 0.0
    for name, cells in zip(asked, [] if batch is None else batch.columns, strict=False):
        counts = count_looks(cells, missing) * (n_rows / max(len(cells), 1))
        column = Counted(Counter(dict(zip(LOOKS, counts.tolist(), strict=True))), sigma, n_rows)
        if all(map(column.hardly_any, ".,")):
            found[name] = Counter()
        elif column.look is Look.WORD:
            found[name] = Counter()
            count_values(read_answers(cells, missing), found[name])
    return found


def columns_of(
    policy: Policy, n_rows: int, words: Mapping[str, Counter[str]], *, surely: bool = False
) -> tuple[Policy, dict[str, int]]:
    """Return the policy with so many columns of words, and as how many each is published, if all rows are as the first.

    A number is published as one; what has an even chance to be told is, or with `surely` what is most of the time.
    """
    sought = sought_of(policy)
    least = max(least_level(policy, n_rows, len(words), MOSTLY * surely), LEAST_LEVEL) if words else 1.0
    parts = dict.fromkeys(sought.names, 1)
    for name, counts in words.items():
        told = [number for number in counts.values() if number >= least * counts.total()]
        others = sum(told) < (1 - least / 2) * counts.total()
        n_levels = len(told) + others if sum(told) > HELD * counts.total() else 0
        parts[name] = n_levels if n_levels > 2 else n_levels // 2
    return policy.changed(sought=sought._replace(n_listed=len(words))), parts


def doubt_words(prepared: Prepared) -> list[str]:
    """Return a sentence if the first rows show that hardly any column would be left.

    It is a warning and no refusal: whether there is a release must not depend on counts without noise.
    """
    policy, n_rows = prepared.policy, prepared.count_rows()
    words, least = words_in_first_rows(prepared.table, policy, n_rows), _LEAST if policy.privacy.is_moments else 1
    if _n_left(policy, n_rows, words) >= least:
        return []
    enough = least_mu(policy, lambda weaker: _n_left(weaker, n_rows, words, surely=True) >= least)
    way = "" if enough is None else f"{describe_weaker(enough)}, or "
    return [
        f"of the words in {n_rows:,} rows, too few stand out from the noise. Fewer than {least} columns may be left, "
        f"and the release be refused after it was paid for: {way}declare what the columns hold{A_POLICY}"
    ]


def _n_left(policy: Policy, n_rows: int, words: Mapping[str, Counter[str]], *, surely: bool = False) -> int:
    """Return of how many columns of the table something would be published."""
    return sum(part > 0 for part in columns_of(policy, n_rows, words, surely=surely)[1].values())


def left_out_by_first_rows(policy: Policy, n_rows: int, words: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Return the columns of words of which nothing would be published if all rows are as the first ones, and why."""
    parts = columns_of(policy, n_rows, words)[1]
    least = least_level(policy, n_rows, len(words), 0.0) if words else 1.0
    gone = {name: max(counts.values(), default=0) / max(counts.total(), 1) for name, counts in words.items()}
    return {
        name: ONE_LEVEL if most > HELD else TOO_RARE if most >= least else NAMES if most else HARDLY_ANY
        for name, most in gone.items()
        if not parts[name]
    }


def point_out_rare(table: Table, policy: Policy, n_rows: int) -> list[str]:
    """Return a sentence on the columns that are searched for and of which nothing would be published, if there are."""
    rare = reasons(left_out_by_first_rows(policy, n_rows, words_in_first_rows(table, policy, n_rows)))
    return [f"probably left out as well, by the first rows, for your eyes only: {rare}"] if rare else []


def forecast_first_rows(plan: Plan) -> str:
    """Return a sentence with the forecast of the columns that the first rows show."""
    policy, parts = columns_of(plan.policy, plan.n_rows, words_in_first_rows(plan.table, plan.policy, plan.n_rows))
    kinds = {str(place): "continuous" for place in range(sum(parts.values()))}
    if len(kinds) < _LEAST:
        return f"as the first rows look, fewer than {_LEAST} columns are left to publish: declare what the columns hold"
    row = forecast(policy, kinds, plan.n_rows)
    return (
        f"as the first rows look, {counted(len(kinds), 'column')} would be published for "
        f"{sum(part > 0 for part in parts.values())} of the table, with a standard error of a correlation of "
        f"{row.shown.error:.2g}"
    )
