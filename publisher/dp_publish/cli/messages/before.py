"""What a publisher reads before a release is paid for, on one screen, from what a plan that looks may tell."""

from collections.abc import Iterator

from dp_bundle.base.quoting import counted, listed, quote_name
from dp_publish.cli.messages.release import GUESSING
from dp_publish.desk.answer import promise_in_words, spending_of
from dp_publish.forecast.first_rows import point_out_rare
from dp_publish.forecast.outlook import Outlook, describe_held
from dp_publish.forecast.page.texts import budget_sentence
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.coded_columns import raw_names
from dp_publish.policy.columns import Prepared
from dp_publish.policy.open_columns import reasons

_SCALES = {"raw": "values", "scores": "normal scores"}
_BY_COLUMN = "values, or of normal scores where those suit a column"


def describe_before(prepared: Prepared, row: Outlook, ledger: Ledger) -> Iterator[str]:
    """Yield what is published and left out, who is protected and how far, what readers see, and what is paid.

    Parameters
    ----------
    prepared : Prepared
        The release that was checked.
    row : Outlook
        Its forecast.
    ledger : Ledger
        Which account pays, and what is left in it.
    """
    policy, n_rows = prepared.policy, row.n_rows
    promise, names = promise_in_words(row.planned), raw_names(prepared.kinds, policy.sources)
    yield f"published: {counted(len(names), 'column')} of {counted(n_rows, 'row')}: {listed(names)}"
    yield f"left out: {reasons(prepared.left_out) or 'nothing'}"
    if policy.sought:
        yield from point_out_rare(prepared.table, policy, n_rows)

    yield f"protected: {promise['who']} {GUESSING} {promise['hundred']}"
    yield f"readers: {describe_held(row)}"
    if policy.privacy.is_moments:
        scale = _SCALES.get(str(policy.privacy.scale), _BY_COLUMN)
        off = f"{1.96 * row.shown.error:.2g}"
        yield f"correlations: of {scale}. By the forecast, 95 % intervals reach about {off} to either side."
    spent = budget_sentence(spending_of(ledger, policy), row.planned.booked_mu)
    yield f"account: {quote_name(policy.dataset.name)}. {spent}"
