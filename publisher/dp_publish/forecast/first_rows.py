"""The columns of a table of which nothing is declared, as its first rows look, for the publisher alone."""

from collections import Counter
from collections.abc import Mapping

from dp_bundle.base.quoting import counted
from dp_bundle.base.wording import A_POLICY
from dp_publish.data.table import Table
from dp_publish.discovery.finding import HELD, LEAST_LEVEL, NAMES, TOO_RARE
from dp_publish.discovery.levels import count_values
from dp_publish.discovery.looks import Look, as_they_look
from dp_publish.forecast.advice import forecast_drawn, least_mu
from dp_publish.forecast.assumptions import MOSTLY, least_level, sought_of
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import describe_weaker
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import Policy

_ROWS, _DIFFERENT = 10_000, 0.5  # of which so large a part is different in a column of names
_LEAST = 2  # columns of second moments


def words_in_first_rows(table: Table, policy: Policy) -> dict[str, Counter[str]]:
    """Return the values of every column that holds words, in the first rows, which are private."""
    found: dict[str, Counter[str]] = {}
    asked = dict.fromkeys(sought_of(policy).looked, "text")
    batch = table.head(asked, _ROWS) if asked else None
    for name, cells in zip(asked, [] if batch is None else batch.columns, strict=False):
        look, values = as_they_look(cells, table.cells.written)
        if look is Look.WORD:
            found[name] = Counter()
            count_values(values, found[name])
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
    words, least = words_in_first_rows(prepared.table, policy), _LEAST if policy.privacy.is_moments else 1
    if _n_left(policy, n_rows, words) >= least:
        return []
    enough = least_mu(policy, lambda weaker: _n_left(weaker, n_rows, words, surely=True) >= least)
    way = "" if enough is None else f"{describe_weaker(enough)}, or "
    return [
        f"of the words in {n_rows:,} rows, too few are frequent enough to be told apart from the noise, so that fewer "
        f"than {least} columns may be left, and the release be refused after it was paid for: {way}declare what the "
        f"columns hold{A_POLICY}"
    ]


def _n_left(policy: Policy, n_rows: int, words: Mapping[str, Counter[str]], *, surely: bool = False) -> int:
    """Return of how many columns of the table something would be published."""
    return sum(part > 0 for part in columns_of(policy, n_rows, words, surely=surely)[1].values())


def left_out_by_first_rows(policy: Policy, n_rows: int, words: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Return the columns of words of which nothing would be published if all rows are as the first ones, and why."""
    parts = columns_of(policy, n_rows, words)[1]
    many = {name: len(counts) > _DIFFERENT * counts.total() for name, counts in words.items()}
    return {name: NAMES if many[name] else TOO_RARE for name in words if not parts[name]}


def forecast_first_rows(plan: Plan) -> str:
    """Return a sentence with the forecast of the columns that the first rows show."""
    policy, parts = columns_of(plan.policy, plan.n_rows, words_in_first_rows(plan.table, plan.policy))
    kinds = {str(place): "continuous" for place in range(sum(parts.values()))}
    if len(kinds) < _LEAST:
        return f"as the first rows look, fewer than {_LEAST} columns are left to publish: declare what the columns hold"
    row = forecast_drawn(policy, kinds, plan.n_rows)
    return (
        f"as the first rows look, {counted(len(kinds), 'column')} would be published for "
        f"{sum(part > 0 for part in parts.values())} of the table, with a standard error of a correlation of "
        f"{row.shown.error:.2g}"
    )
