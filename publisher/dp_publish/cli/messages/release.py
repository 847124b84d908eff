"""A receipt in words, for a person and for a machine, and the page beside its bundle, from public facts alone.

What a publisher reads before a release is paid for is on one screen, from what a plan that looks may tell.
"""

import math
import shlex
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import DpGraphError, PolicyError, PrivacyError
from dp_bundle.base.quoting import counted, listed, quote_name, quote_path, round_up
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.catalog.label import worded_label
from dp_bundle.describe.sentences import (
    describe_bounds,
    describe_promise,
    describe_scale,
    describe_size,
    describe_total,
)
from dp_bundle.describe.subject import licence_gap
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import end_in_name
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.cli.desk.answer import promise_in_words, spending_of
from dp_publish.cli.messages.tables import lines_of, say_lines
from dp_publish.covariance.two_rounds.shares import share_shortened
from dp_publish.forecast.assumptions import describe_spread, with_entries
from dp_publish.forecast.first_rows import point_out_rare
from dp_publish.forecast.outlook import Outlook, describe_held, forecast
from dp_publish.forecast.page.texts import budget_sentence
from dp_publish.forecast.planned import HELD
from dp_publish.forecast.refusal import share_unchanged, why_hidden
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.coded_columns import raw_names
from dp_publish.policy.columns import Prepared
from dp_publish.policy.model import ColumnPolicy, Policy
from dp_publish.policy.open_columns import reasons
from dp_publish.release.publishing import Receipt

_COUNTED = 2  # columns, of which cells are counted apart from the others
_HARDLY_CHANGED = 0.5  # share of values that come out as they went in
_ROUNDING = 1e-9
GUESSING = "Somebody who knows all else is to guess which of two possibilities is true."
_TENS = ("one", "ten", "a hundred", "a thousand", "ten thousand", "a hundred thousand")


def summarize_receipt(
    receipt: Receipt, policy: Policy, minisig: Path | RemotePath | None = None, page: Path | None = None
) -> str:
    """Return ten lines at most on a release for its publisher, with no word of the field, and what to do next.

    Parameters
    ----------
    receipt, policy, minisig, page
        As of `describe_receipt`, which says all of it.
    """
    release, label = release_in_words(receipt), worded_label(release_in_words(receipt))
    unit, row, file = release.cumulative.unit, _forecast_of(release, policy), shlex.quote(str(receipt.path))
    uses = [f"dp-learn {file}"] if _has_graph(release) else []
    return "\n".join(
        say_lines(
            "summary.txt",
            wrote=_wrote(receipt, release),
            receipt=receipt,
            reasons=reasons,
            release=release,
            label=label,
            guessing=GUESSING,
            promised=[said for said in label["plainly"] if not said.startswith("Somebody")],
            merged=[source.name for source in release.sources if source.other and release.discovery],
            readers=describe_held(row, _held(release)) if row else describe_use(release, policy)[-1],
            unit=unit,
            mu=receipt.spent.get(unit),
            budget=receipt.budgets.get(unit),
            report=_describe_report(receipt),
            licence=licence_gap(release.dataset),
            page=page,
            file=file,
            minisig=minisig,
            uses=[*uses, f"dp-bundle synthesize {file}"] if release.margins else uses,
            describe_odds=describe_odds,
        )
    )


def describe_odds(probability: float) -> str:
    """Return a number in words, of which a case of this probability is at most one: a million million."""
    millions, tens = divmod(math.floor(-math.log10(probability)), 6)
    return " ".join([_TENS[tens] if tens or not millions else "a", *["million"] * millions])


def _wrote(receipt: Receipt, release: Release) -> str:
    named = quote_name(release.dataset.name)
    return f"wrote {receipt.path}: release {release.lineage.number} of {named}, {describe_size(release)}"


def describe_receipt(
    receipt: Receipt,
    policy: Policy,
    minisig: Path | RemotePath | None = None,
    page: Path | None = None,
    *,
    width: int | None = None,
) -> str:
    """Return the lines on a release for its publisher, in plain words first, and on what lies beside it.

    Parameters
    ----------
    receipt, policy : Receipt, Policy
        The release, and what it was made by.
    minisig, page : path or None
        The files beside it, if they were written.
    width : int, optional
        At which sentences are folded; by default each is one line.
    """
    release = release_in_words(receipt)
    return "\n".join(
        say_lines(
            "receipt.txt",
            wrote=_wrote(receipt, release),
            receipt=receipt,
            reasons=reasons,
            policy=policy,
            label=worded_label(release),
            use=describe_use(release, policy),
            numbers=[
                *describe_promise(_with_one_point(release)),
                *describe_scale(release.columns),
                *_describe_spent(receipt, release),
            ],
            licence=licence_gap(release.dataset),
            searched=[column for column in release.columns if column.bounds_found],
            describe_bounds=describe_bounds,
            page=page,
            minisig=minisig,
            report=_describe_report(receipt),
            has_graph=_has_graph(release),
            learn=shlex.join(["dp-learn", str(receipt.path)]),
            lines=lines_of,
            folded=partial(_folded, width=width),
        )
    )


def _has_graph(release: Release) -> bool:
    """Return True if there are several columns: of one there is no graph."""
    return len(source_names(release.columns)) > 1


def _with_one_point(release: Release) -> Release:
    """Return the release with the middle one of its (epsilon, delta) points; the page beside the bundle has all."""
    points = release.guarantee.epsilon_delta
    guarantee = release.guarantee.model_copy(update={"epsilon_delta": points[len(points) // 2 :][:1]})
    return release.model_copy(update={"guarantee": guarantee})


def _folded(sentence: str, width: int | None) -> str:
    """Return an indented sentence, on one line or folded between words."""
    if width is None:
        return f"  {sentence}"
    lines = textwrap.wrap(sentence, max(width - 4, 20), break_long_words=False, break_on_hyphens=False)
    return "\n    ".join([f"  {lines[0]}", *lines[1:]])


def release_in_words(receipt: Receipt) -> Release:
    """Return the release, with the mu of all releases so far, which no manifest states where noise is discrete."""
    release, total = receipt.release, receipt.release.cumulative
    mu = receipt.spent.get(total.unit)
    if total.rho is None or total.mu is not None or mu is None:
        return release
    return release.model_copy(update={"cumulative": total.model_copy(update={"mu": mu})})


def describe_use(release: Release, policy: Policy) -> list[str]:
    """Return sentences on what researchers will see of a release, from bounds and noise alone."""
    held, unchanged, row = _held(release), [*_describe_unchanged(release)], _forecast_of(release, policy)
    if row is None:
        return [held, *unchanged]
    said = [describe_held(row, held), *unchanged]
    if row.planned.depends_on_values:
        return [*said, "error bars: readers get none, as the noise of this mechanism does not act entry by entry"]

    seen = f"a correlation has a standard error of {row.shown.error:.2g}"
    if not row.shows_something:
        seen = why_hidden(row)
    elif row.n_columns == 1:
        seen = "the variance of this column can be seen"
    is_found = release.second_moments is not None and row.planned.policy.sought is not None
    assumed = "" if is_found else f". That is if {describe_spread(row.planned.policy)}"
    return [*said, f"forecast: {seen} (see dp-publish plan){assumed}"]


def _held(release: Release) -> str:
    return HELD[release.kind if release.margins is None else "histograms"]


def _forecast_of(release: Release, policy: Policy) -> Outlook | None:
    """Return what researchers will see, by a forecast; None of a strength at the edge of what can be released."""
    policy = policy if release.second_moments is None else _as_found(release, policy)
    try:
        return forecast(
            policy, {column.name: column.kind for column in release.columns}, release.n_rows, with_rows=False
        )
    except (PolicyError, PrivacyError):
        return None


def _describe_spent(receipt: Receipt, release: Release) -> list[str]:
    """Return what all releases cost together, where there are several, or a budget."""
    if release.cumulative.releases == 1 and not receipt.budgets:
        return []
    so_far = {unit: f" (mu = {round_up(mu)} so far)" for unit, mu in receipt.spent.items()}
    budgets = [
        f"mu = {budget:g} per {quote_name(unit)}{so_far.get(unit, '')}" for unit, budget in receipt.budgets.items()
    ]
    return [describe_total(release) + (f" The budget is {', '.join(budgets)}." if budgets else "")]


def _describe_report(receipt: Receipt) -> list[str]:
    """Return the counts that depend on the raw values."""
    report, release = receipt.report, receipt.release
    outside = _describe_shortened(release) if _in_two_rounds(release) else "clipped to their bounds or the ball"
    unbounded = {column.name for column in release.columns if column.bounds is None}
    of_bounds = {name: number for name, number in report.filled.items() if name not in unbounded}
    of_center = {name: number for name, number in report.filled.items() if name in unbounded}
    return [
        *_describe_entities(report.n_entities),
        *_describe_cells(report.clipped, "clipped to its bounds"),
        *_describe_cells(report.beyond, "clipped to what was found for it (see dp-bundle inspect)"),
        *_describe_rows(report.n_clipped_rows if _has_ball(release) else 0, outside),
        *_describe_rows(report.n_over_cap, "left out, beyond the max_rows of their entity"),
        *_describe_cells(of_bounds, "without a value, set to the midpoint"),
        *_describe_cells(of_center, "without a value, set to the center that was found"),
        *_describe_cells(report.indicated, "without a value, which a column beside it shows with noise"),
        *_describe_rows(report.n_dropped, "with a missing value, left out"),
    ]


def _describe_shortened(release: Release) -> str:
    """Return what happened to rows far out in the second round, and to how many of them it was meant to happen."""
    guarantee = release.guarantee
    if guarantee.mu is None:
        raise TypeError("two rounds have a guarantee by mu")
    share = share_shortened(guarantee.mu / (guarantee.max_rows or 1), release.n_rows, len(release.columns))
    return f"shortened to the second round's radius, which was chosen to shorten about {share * release.n_rows:,.0f}"


def receipt_document(
    receipt: Receipt, minisig: Path | RemotePath | None = None, page: Path | None = None
) -> dict[str, Any]:
    """Return the same for a machine."""
    report = receipt.report
    return {
        "path": str(receipt.path),
        "minisig": None if minisig is None else str(minisig),
        "page": None if page is None else str(page),
        "manifest_sha256": receipt.manifest_sha256,
        "left_out": list(receipt.left_out),
        "remark": receipt.remark,
        "release": receipt.release.model_dump(mode="json"),
        "for_the_publisher_only": {
            "clipped": report.clipped,
            "clipped_to_what_was_found": report.beyond,
            "filled": report.filled,
            "indicated": report.indicated,
            "rows_clipped": report.n_clipped_rows,
            "rows_dropped": report.n_dropped,
            "rows_over_cap": report.n_over_cap,
            **({"entities": report.n_entities} if report.n_entities else {}),
        },
    }


def _describe_unchanged(release: Release) -> Iterator[str]:
    """Yield the share of whole numbers that the noise leaves unchanged, if it is large, and the remedy."""
    shares = {column.source_name: share_unchanged(column) for column in release.columns if column.kind == "integer"}
    still = {name: share for name, share in shares.items() if share > _HARDLY_CHANGED}
    if not still:
        return
    least, most = (100 * share(still.values()) for share in (min, max))
    often = f"{most:.3g} %" if most - least < 1 else f"{least:.2g} to {most:.3g} %"
    yield (
        f"the noise leaves {often} of the values of {listed(list(still))} unchanged: a stronger guarantee (a smaller "
        "mu, epsilon or rho) changes more of them"
    )


def _as_found(release: Release, policy: Policy) -> Policy:
    """Return the policy that a release was made by after it was found what the columns are, for a forecast."""
    guarantee = release.guarantee
    if release.discovery is None or guarantee.mu is None:
        return policy
    rest = math.sqrt(guarantee.mu**2 - (guarantee.discovery_mu or 0.0) ** 2)
    bounds = {column.name: ColumnPolicy(bounds=column.bounds) for column in release.columns if column.bounds}
    nothing = policy.sought._replace(n_listed=0, looked=(), typed=()) if policy.sought else None
    return policy.with_privacy(mu=rest, rho=None).changed(columns=bounds, sought=nothing)


def _describe_cells(cells: dict[str, int], what: str) -> list[str]:
    """Return a line for each of the columns with the most such cells, and one for all others together."""
    ranked = sorted(cells.items(), key=lambda item: -item[1])
    lines = [f"{counted(number, 'cell')} of {quote_name(name)} {what}" for name, number in ranked[:_COUNTED]]
    rest = ranked[_COUNTED:]
    if rest:
        n_cells = sum(number for _, number in rest)
        lines.append(f"{counted(n_cells, 'cell')} of {counted(len(rest), 'more column')} {what}")
    return lines


def _describe_entities(number: int) -> list[str]:
    found = "1 entity" if number == 1 else f"{number:,} entities"
    return [f"{found} found (ids that differ in blanks or zeros around them alone are one)"] if number else []


def _describe_rows(number: int, what: str) -> list[str]:
    return [f"{counted(number, 'row')} {what}"] if number else []


def _has_ball(release: Release) -> bool:
    """Return True if rows within their bounds may have been shortened."""
    moments = release.second_moments
    return moments is not None and (
        _in_two_rounds(release) or moments.radius < math.sqrt(len(release.columns)) * (1 - _ROUNDING)
    )


def _in_two_rounds(release: Release) -> bool:
    return release.second_moments is not None and release.second_moments.first_round is not None


def page_path(bundle: Path) -> Path:
    """Return the path of the page beside a bundle, a tar or a folder: NAME.bundle.html."""
    named = end_in_name(bundle)
    return named.with_name(f"{named.name.removesuffix('.tar')}.html")


def write_page(receipt: Receipt, policy: Policy) -> tuple[Path | None, str]:
    """Write the page of a release that was published, beside it; nothing is ever replaced.

    Parameters
    ----------
    receipt : Receipt
        The release, whose bundle the page is read from. What its report tells is not on the page.
    policy : Policy
        By which it was made. Neither is the spread that it expects, which may have been read off the table.

    Returns
    -------
    Path or None
        The page; None if the bundle is not on this machine, or the page could not be written.
    str
        Nothing, or why not.
    """
    if isinstance(receipt.path, RemotePath):
        return None, ""
    path = page_path(receipt.path)
    try:
        text = _page_of(receipt, receipt.path, describe_use(release_in_words(receipt), _without_spreads(policy)))
        if not (path.is_file() and path.read_bytes() == text.encode()):  # as a process left it that was killed
            with errors_of_writing(path, f"there is another file at {quote_path(path)}"):
                write_whole(path, text.encode(), replace=False)
    except DpGraphError as error:
        return None, f"the release is complete, but has no page beside it: {error}"
    return path, ""


def _page_of(receipt: Receipt, path: Path, seen: list[str]) -> str:
    from dp_bundle.catalog.pages import page_beside

    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        if bundle.manifest_sha256 != receipt.manifest_sha256:
            raise DpGraphError(f"{quote_path(path)} is no longer the file that was written")
        return page_beside(bundle, release_in_words(receipt), file=end_in_name(path).name, seen=seen)


def _without_spreads(policy: Policy) -> Policy:
    """Return the policy with the usual spread for every number; that of a category follows from its levels."""
    coded = {name for source in policy.sources if source.kind != "number" for name in source.columns}
    return with_entries(policy, {name: {"spread": None} for name in policy.columns if name not in coded})


def describe_before(prepared: Prepared, row: Outlook, ledger: Ledger) -> list[str]:
    """Return what is published and left out, who is protected and how far, what readers see, and what is paid.

    Parameters
    ----------
    prepared : Prepared
        The release that was checked.
    row : Outlook
        Its forecast.
    ledger : Ledger
        Which account pays, and what is left in it.
    """
    policy = prepared.policy
    return say_lines(
        "before.txt",
        names=raw_names(prepared.kinds, policy.sources),
        row=row,
        left_out=prepared.left_out,
        reasons=reasons,
        rare=point_out_rare(prepared.table, policy, row.n_rows) if policy.sought else (),
        promise=promise_in_words(row.planned),
        guessing=GUESSING,
        readers=describe_held(row),
        policy=policy,
        spent=budget_sentence(spending_of(ledger, policy), row.planned.booked_mu),
    )
