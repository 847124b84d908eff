"""dp-publish: from a private table to a signed bundle of noisy data.

Each command imports its libraries when it runs, so help appears at once and no command loads those of another.
"""

from __future__ import annotations

import datetime
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_bundle.base.errors import DpGraphError, ParameterError, PolicyError, PrivacyError
from dp_bundle.base.machine import before_compiling, count_cores, require_memory
from dp_bundle.cli.console import (
    ALWAYS,
    BundlePath,
    DataPath,
    NewPath,
    With,
    Without,
    already,
    announce_compiling,
    answer,
    engine_options,
    json_option,
    memory_option,
    option,
    quiet_option,
    run,
    step,
    tell,
    version_option,
    warnings_told,
)
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.places import Place, RemotePath, is_uri
from dp_bundle.trust.signing import public_key_of
from dp_bundle.trust.store import DEFAULT_KEY, load_key, public_key_path, signing_key
from dp_publish.cli.options import (
    RunsByDefault,
    dialect_options,
    header_option,
    key_option,
    ledger_option,
    plain_text,
    policy_option,
    policy_options,
    typed_options,
    writing_new,
)
from dp_publish.policy.choices import DEFAULT_SPREAD

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from dp_publish.data.dialect import Dialect
    from dp_publish.forecast.outlook import Outlook
    from dp_publish.ledger.ledger import Ledger
    from dp_publish.policy.columns import Prepared
    from dp_publish.policy.model import Policy
    from dp_publish.release.publishing import Receipt

DATA = DataPath()
_PASSED = "passed: no attack learned more than is promised. An audit can refute a promise, and cannot prove it."
_PRACTICE = Path(__file__).parent / "desk" / "assets" / "practice.csv"


@click.group(
    cls=RunsByDefault,
    default="publish",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@version_option
def cli() -> None:
    """Add calibrated noise to a private table and write one signed bundle that anyone may learn from.

    \b
    Example:
      dp-publish wine.parquet             write wine.bundle.tar
      dp-publish policy wine.parquet      write wine.policy.toml, to declare what is public
    """


@cli.command("publish")
@click.argument("data", type=DATA)
@policy_options
@key_option
@ledger_option()
@option(
    "--partition",
    applies=ALWAYS,
    type=plain_text,
    metavar="TEXT",
    help="The name of the part of the rows in DATA, such as a month; parts must not overlap.",
)
@option(
    "--out",
    applies=ALWAYS,
    type=NewPath(remote=True, either=True),
    help="The bundle to write: a tar, a folder (FOLDER/) or s3://, gs:// or az://; NAME.bundle.tar here by default.",
)
@engine_options("reads the table and adds noise to rows")
@option(
    "--staging",
    applies=[With("engine", ("dask",))],
    help="A private folder or URI where workers stage parts; a temporary one by default.",
)
@option(
    "--log",
    applies=ALWAYS,
    type=NewPath(),
    help="Also append what happens, with the time, to this file; it holds no value of DATA.",
)
@option(
    "--progress",
    applies=ALWAYS,
    type=click.Choice(["terminal", "lines"]),
    default="terminal",
    show_default=True,
    help="Show progress on a terminal alone, or as lines of JSON on stderr, for programs.",
)
@option(
    "--anyway",
    applies=ALWAYS,
    is_flag=True,
    help="Publish even what would be refused as useless or as a likely mistake.",
)
@option("--confirmed", applies=ALWAYS, hidden=True, help="The mark of the table's files that the desk was asked about.")
@option(
    "--yes",
    applies=ALWAYS,
    is_flag=True,
    help="Ask nothing before publishing on a terminal, as with --json and --quiet.",
)
@option(
    "--account",
    applies=ALWAYS,
    metavar="DATASET",
    help="The dataset with earlier releases of the same people, whose account in the ledger pays.",
)
@option(
    "--new-account",
    applies=[Without("account")],
    is_flag=True,
    help="Begin an account, though there is one of a table with these columns: of other people.",
)
@option("--details", applies=ALWAYS, is_flag=True, help="Say all about the release afterwards, not ten lines.")
@memory_option
@json_option
@quiet_option
def publish_command(
    data: Place,
    policy_file: Path | None,
    key: str,
    ledger_place: str | None,
    partition: str | None,
    out: Path | RemotePath | str | None,
    engine: str,
    scheduler: str | None,
    staging: str | None,
    log: Path | None,
    progress: str,
    anyway: bool,
    confirmed: str | None,
    details: bool,
    yes: bool,
    account: str | None,
    new_account: bool,
    max_memory: int | None,
    as_json: bool,
    quiet: bool,
    **privacy: Any,
) -> None:
    """Publish DATA: a file of Parquet, Arrow, CSV, SPSS, Stata, SAS or Excel, a folder of Parquet files, or a URI.

    Without a policy, one row is protected at mu = 1, second moments are published, and all that they need is found
    privately. A release is refused if it would show nothing (by the forecast of dp-publish plan), or would leave a
    column of whole numbers unchanged.

    \b
    Example:
      dp-publish wine.parquet --unit cell --mu 1
      dp-publish wine.parquet --release covariance
    """
    begun_at = datetime.datetime.now(datetime.UTC)
    from dp_publish.cli.messages.following import logged_to, shown_as_lines, shown_on_terminal
    from dp_publish.cli.messages.ledger import require_known
    from dp_publish.cli.messages.release import describe_receipt, receipt_document, summarize_receipt
    from dp_publish.data.table import open_table
    from dp_publish.forecast.checking import check_in_advance
    from dp_publish.forecast.first_rows import point_out_rare
    from dp_publish.forecast.plan import choose_release
    from dp_publish.ledger.alike import count_shared
    from dp_publish.ledger.ledger import open_ledger
    from dp_publish.release.preparing import place_for_workers
    from dp_publish.release.publishing import publish, require_no_minisig
    from dp_publish.release.workers.worker import dask_cluster

    if engine == "dask":
        place_for_workers(data)  # before anything is started or made
    say = partial(tell, quiet=quiet)
    is_shown = sys.stderr.isatty() and not quiet
    if is_shown:
        before_compiling(partial(announce_compiling, "a few seconds"))
        step("looking at the table")

    # what is published, and whether that can be, and should
    usual, policy = _plain_name(data), _policy_of(data, policy_file, privacy, say)
    ledger = open_ledger(ledger_place)
    opened = open_table(data, policy.table)
    opened = opened.confirmed(confirmed) if confirmed else opened
    if account is not None:
        require_known(ledger.books(), account, "--account")
        policy = policy.model_copy(update={"dataset": policy.dataset.model_copy(update={"name": account})})
    withheld = ledger.entities(policy.dataset.name)
    prepared, why = choose_release(data, policy, withheld, opened=opened, may_search=engine != "dask")
    policy = prepared.written
    outlook = check_in_advance(
        prepared,
        anyway=anyway,
        tell=say,
        max_memory=max_memory,
        n_workers=count_cores() if engine == "dask" and scheduler is None else 0,
    )
    step("")
    if not new_account:
        _ask_account(ledger, policy.dataset.name, opened.types)
    earlier = [each.file for each in ledger.entries(policy.dataset.name) if each.file]
    if earlier and prepared.policy.sought and count_shared(earlier[-1], opened.types):
        say(
            f"to have columns as they were before, with no search to pay for, give --like {earlier[-1]}. Dates that "
            "are not like 2026-01-31 need a format in the policy"
        )
    if is_shown and sys.stdin.isatty() and not (yes or as_json):
        _ask(prepared, outlook, ledger)
    else:
        rare = point_out_rare(opened, prepared.policy, prepared.count_rows()) if prepared.policy.sought else []
        for sentence in rare:
            say(sentence)
        if earlier and ledger.books().account(policy.dataset.name).mu(policy.privacy.account) is None:
            say("note: not all earlier releases protect this unit: together with this one, they promise it nothing")

    signing_key = _signing_key(key, say)
    target = out or Path(f"{usual}.bundle.tar")
    require_no_minisig(target)
    beside: list[Any] = []
    follow = shown_as_lines if progress == "lines" else shown_on_terminal if is_shown else None
    with (
        warnings_told(quiet=quiet),
        logged_to(log, data, target, f"{target}.minisig", staging) if log else nullcontext(),
        dask_cluster(scheduler, staging) if engine == "dask" else nullcontext() as cluster,
        follow(prepared.count_rows()) if follow else nullcontext() as show,
    ):
        receipt = publish(
            data,
            policy,
            out=target,
            key=signing_key,
            ledger=ledger,
            partition=partition,
            progress=show,
            cluster=cluster,
            prepared=prepared,
            begun_at=begun_at,
            then=lambda receipt: beside.extend(_write_beside(receipt, prepared.policy, signing_key, say)),
        )
    if why:
        say(why)
    with already(_done(receipt)):
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        text = (
            describe_receipt(receipt, prepared.policy, *beside, width=width)
            if details
            else summarize_receipt(receipt, prepared.policy, *beside)
        )
        answer(text, receipt_document(receipt, *beside), as_json=as_json, quiet=quiet)


@cli.command("policy")
@click.argument("data", type=DATA)
@dialect_options
@option("--out", applies=ALWAYS, type=NewPath(), help="The policy file to write; beside DATA by default.")
@memory_option
@quiet_option
def policy_command(data: Place, out: Path | None, max_memory: int | None, quiet: bool, **given: Any) -> None:
    """Write a commented policy for DATA from its column names and types alone; no value is read.

    \b
    Example:
      dp-publish policy wine.parquet
    """
    from dp_publish.data.table import open_table
    from dp_publish.policy.file import policy_path
    from dp_publish.policy.memory import template_memory
    from dp_publish.policy.template import describe_undecided, policy_template

    dialect = _dialect_of(given)
    table = open_table(data, dialect)
    n_columns = len(table.types)
    require_memory(template_memory(n_columns), max_memory, f"a policy for {n_columns:,} columns")
    known = table.types, table.layout, dialect.header, table.booleans, table.described
    template = policy_template(data.name, _plain_name(data), *known)
    usual = policy_path(data)
    target = out or usual
    with writing_new(target, "policy", "edit it, or give another --out"):
        write_whole(target, template.encode(), replace=False)
    words = ["dp-publish", str(data), *(["--policy", str(target)] if target != usual else [])]
    text = f"wrote {target}: fill in the bounds, then run {shlex.join(words)}"
    said = [text, *describe_undecided(table.types, table.described), *filter(None, [table.remark])]
    answer("\n".join(said), quiet=quiet)


def _dialect_of(given: dict[str, str | None]) -> Dialect:
    """Return a dialect from a command's options, where a tab has its name.

    Raises
    ------
    ParameterError
        One of them is not allowed.
    """
    from pydantic import ValidationError

    from dp_publish.data.dialect import Dialect
    from dp_publish.policy.mistakes import ALLOWED

    options = {name: "\t" if word in ("tab", "\\t") else word for name, word in given.items()}
    try:
        return Dialect.model_validate(options)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise ParameterError(f"--{name}", ALLOWED[f"table.{name}"], given[name]) from error


@cli.command("plan")
@click.argument("data", type=DATA)
@policy_options
@option(
    "--spread",
    applies=ALWAYS,
    type=float,
    default=DEFAULT_SPREAD,
    show_default=True,
    help="Assumed standard deviation over the width of the bounds (of counts with a max_change: assumed mean), for "
    "columns without a spread in the policy.",
)
@option(
    "--report",
    applies=ALWAYS,
    type=NewPath(),
    help="Also write the forecast, with a slider for the strength, to this .html page.",
)
@ledger_option([With("report")])
@option(
    "--look",
    applies=ALWAYS,
    is_flag=True,
    help="Also read the rows, and report all that publishing would say about them, or refuse.",
)
@memory_option
@json_option
@quiet_option
def plan_command(
    data: Place,
    policy_file: Path | None,
    spread: float,
    report: Path | None,
    ledger_place: str | None,
    look: bool,
    max_memory: int | None,
    as_json: bool,
    quiet: bool,
    **privacy: Any,
) -> None:
    """Forecast what researchers could see of DATA at each strength; nothing is spent.

    Only the number of rows and the policy's bounds are used; no value is read unless --look is given. The policy may
    leave strength and bounds open.

    \b
    Example:
      dp-publish plan wine.parquet --report wine.plan.html
      dp-publish plan wine.parquet --look
    """
    step("forecasting", quiet=quiet)
    from dp_publish.cli.messages.plan import describe_plan, plan_document
    from dp_publish.forecast.checking import describe_first_rows
    from dp_publish.forecast.plan import make_plan

    if report is not None:
        from dp_publish.forecast.page.report import require_page

        require_page(report)
    policy = _policy_of(data, policy_file, privacy, partial(tell, quiet=quiet))
    plan = make_plan(data, policy, spread=spread, max_memory=max_memory)
    notes = describe_first_rows(plan, looked=look)
    for sentence in notes:
        tell(sentence, quiet=quiet)
    if report is not None:
        from dp_publish.cli.desk.answer import spending_of
        from dp_publish.forecast.page.report import write_page
        from dp_publish.forecast.page.texts import Asked
        from dp_publish.ledger.ledger import open_ledger
        from dp_publish.policy.file import used_policy

        step("drawing the page", quiet=quiet)
        used = used_policy(data, policy_file)
        account = spending_of(open_ledger(ledger_place), plan.policy)
        name = os.fsencode(data.name or Path(data).resolve().name).decode("utf-8", "replace")
        write_page(plan, report, Asked(name, typed_options(), used, notes, look, account))
        tell(f"wrote {report}", quiet=quiet)
    answer(describe_plan(plan, looked=look), plan_document(plan), as_json=as_json, quiet=quiet)


@cli.command("judge")
@click.argument("data", type=DATA)
@click.argument("bundle", type=BundlePath())
@policy_option
@option("--out", applies=ALWAYS, type=NewPath(), help="The page to write; NAME.judged.html beside DATA by default.")
@quiet_option
def judge_command(data: Place, bundle: Place, policy_file: Path | None, out: Path | None, quiet: bool) -> None:
    """Show BUNDLE beside the clean DATA that it was made of, on a page for your eyes alone; nothing is spent.

    Released and clean histograms, means and correlations stand side by side, with what was clipped and left out. Only
    you may read the page: it is neither in the bundle nor on its page.

    \b
    Example:
      dp-publish judge wine.parquet wine.bundle.tar
    """
    step("comparing", quiet=quiet)
    from dp_bundle.bundle.reading import open_bundle
    from dp_publish.forecast.page.judging import make_page
    from dp_publish.policy.columns import prepare
    from dp_publish.policy.file import policy_path

    policy = _policy_of(data, policy_file, {"like": bundle})
    with open_bundle(bundle, allow_older=True) as released:
        page = make_page(released, prepare(data, policy))
    target = out or policy_path(data).with_name(f"{_plain_name(data)}.judged.html")
    with writing_new(target, "file", "move it away, or give another --out"):
        write_whole(target, page.encode(), replace=False, mode=0o600)
    answer(f"wrote {target}: it shows the clean table, so keep it to yourself", quiet=quiet)


@cli.command("desk")
@click.argument("data", type=DATA, required=False)
@option(
    "--practice",
    applies=ALWAYS,
    is_flag=True,
    help="Open a made-up table, in a folder and with a ledger apart.",
)
@option(
    "--policy",
    "policy_file",
    applies=ALWAYS,
    type=click.Path(path_type=Path),
    help="The policy file to read and to write; NAME.policy.toml beside DATA by default.",
)
@key_option
@ledger_option()
@header_option
@option("--port", applies=ALWAYS, type=click.IntRange(0, 65535), default=0, help="By default any that is free.")
@option("--no-browser", applies=ALWAYS, is_flag=True, help="Print the address, and open no browser.")
def desk_command(
    data: Place | None,
    practice: bool,
    policy_file: Path | None,
    key: str,
    ledger_place: str | None,
    header: str | None,
    port: int,
    no_browser: bool,
) -> None:
    """Publish DATA from a form in your own browser, which shows what you promise and what will be seen.

    The form is served on this machine to you alone, until you close it or it was not touched for an hour. It reads and
    writes the policy's file, and does what the other commands do.

    \b
    Example:
      dp-publish desk wine.parquet
    """
    from dp_publish.cli.desk.server import serve
    from dp_publish.cli.desk.session import Asked
    from dp_publish.policy.file import policy_path

    if practice == (data is not None):
        raise click.UsageError("Give DATA, which is your table, or --practice, to try the desk")
    if data is None:
        folder = Path(tempfile.mkdtemp(prefix="dpgraph-practice-"))
        data, ledger_place = Path(shutil.copy(_PRACTICE, folder)), f"{folder}/ledger.sqlite"
        os.chdir(folder)  # where the release goes
        tell(f"all of this practice is kept in {folder}")
    asked = Asked(data, _plain_name(data), policy_file or policy_path(data), key, ledger_place, header)
    serve(asked, port=port, browse=not no_browser, tell=tell)


@cli.command("audit")
@click.argument("data", type=DATA)
@policy_options
@option(
    "--canaries",
    applies=ALWAYS,
    type=int,
    help="Number of coins to guess, for rows or releases; by default enough for a tight bound.",
)
@option(
    "--confidence",
    applies=ALWAYS,
    type=float,
    default=0.9999,
    show_default=True,
    help="Confidence in the bound and all checks together.",
)
@json_option
@quiet_option
def audit_command(
    data: Place,
    policy_file: Path | None,
    canaries: int | None,
    confidence: float,
    as_json: bool,
    quiet: bool,
    **privacy: Any,
) -> None:
    """Attack what would be published of DATA, and compare the privacy loss that this proves with the stated one.

    Made-up rows take the place of DATA, of which only names, types and the first rows are read. They are read to ask
    whose they are; nothing is spent.

    \b
    Example:
      dp-publish audit wine.parquet
    """
    from dp_audit.planned_release import audit_document, audit_planned_release, describe_audit, describe_failures
    from dp_publish.forecast.checking import require_whose
    from dp_publish.forecast.plan import choose_release
    from dp_publish.release.publishing import publish_aside

    step("attacking what would be published", quiet=quiet)
    prepared, _ = choose_release(data, _policy_of(data, policy_file, privacy, partial(tell, quiet=quiet)))
    require_whose(prepared)
    report = audit_planned_release(
        data,
        prepared.written,
        publish_aside,
        n_canaries=canaries,
        confidence=confidence,
        tell=partial(tell, quiet=quiet),
    )
    text = describe_audit(report) if report.findings else f"{describe_audit(report)}\n{_PASSED}"
    answer(text, audit_document(report), as_json=as_json, quiet=quiet)
    if report.findings:
        raise PrivacyError(describe_failures(report))


@cli.group("ledger", cls=RunsByDefault, default="show", no_args_is_help=False)
def ledger_group() -> None:
    """Show what the releases of each dataset have cost, or those of DATASET; cancel one, back up or restore the ledger.

    \b
    Example:
      dp-publish ledger
      dp-publish ledger wine
      dp-publish ledger cancel wine 3
      dp-publish ledger backup /media/safe/ledger-2026-11.sqlite
      dp-publish ledger restore published/
    """


@ledger_group.command("show")
@click.argument("dataset", required=False)
@ledger_option()
@json_option
def ledger_show(dataset: str | None, ledger_place: str | None, as_json: bool) -> None:
    """Show what the releases of each dataset have cost, or those of DATASET; `show` may be left out."""
    from dp_publish.cli.messages.ledger import describe_ledger, ledger_document, require_known
    from dp_publish.release.begun import take_back

    ledger = _known_ledger(ledger_place)
    take_back(ledger)
    books = ledger.books()
    require_known(books, dataset)
    answer(describe_ledger(books, ledger.place, dataset), ledger_document(books, dataset), as_json=as_json)


@ledger_group.command("cancel")
@click.argument("dataset")
@click.argument("number", type=int)
@ledger_option()
@quiet_option
def ledger_cancel(dataset: str, number: int, ledger_place: str | None, quiet: bool) -> None:
    """Take release NUMBER of DATASET, which ended early on this machine, out of the ledger if nothing of it was seen.

    What was kept to go on with it is removed either way.

    \b
    Example:
      dp-publish ledger cancel wine 3
    """
    from dp_publish.ledger.ledger import open_ledger
    from dp_publish.release.begun import cancel

    answer(cancel(open_ledger(ledger_place), dataset, number), quiet=quiet)


@ledger_group.command("backup")
@click.argument("file", type=NewPath())
@ledger_option()
@quiet_option
def ledger_backup(file: Path, ledger_place: str | None, quiet: bool) -> None:
    """Copy the ledger to FILE, which must not exist yet.

    If you ever put the copy back, the ledger lacks all later releases: run `ledger restore` then.
    """
    with writing_new(file, "file", "name another one"):
        _known_ledger(ledger_place, own=True).log.backup(file)
    answer(f"wrote {file}", quiet=quiet)


@ledger_group.command("restore")
@click.argument("places", metavar="[BUNDLE_OR_FOLDER]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@ledger_option()
@json_option
@quiet_option
def ledger_restore(places: tuple[Path, ...], ledger_place: str | None, as_json: bool, quiet: bool) -> None:
    """Complete the ledger after it was lost, damaged, altered or replaced by a backup.

    What is missing is taken from the copy beside the signing key and from your own bundles, which state what they cost.
    Give all bundles at once. A cost that is in a bundle's total but belongs to no known release is booked as lost, and
    stays spent.

    \b
    Example:
      dp-publish ledger restore published/ wine.bundle.tar
    """
    from dp_publish.cli.messages.ledger import describe_restoration, describe_surprises, restoration_document
    from dp_publish.ledger.ledger import open_ledger
    from dp_publish.ledger.restoring import restore

    step("reading the bundles", quiet=quiet)
    done = restore(open_ledger(ledger_place), places)
    for sentence in describe_surprises(done):
        tell(f"note: {sentence}", quiet=quiet)
    answer(describe_restoration(done), restoration_document(done), as_json=as_json, quiet=quiet)


def _known_ledger(place: str | None, *, own: bool = False) -> Ledger:
    """Return a ledger that is there; the user's own may be still to come, unless it is asked for, too."""
    from dp_publish.ledger.ledger import open_ledger

    ledger = open_ledger(place)
    is_there = is_uri(place) or Path(place).exists() if place else ledger.path.exists() or not own
    if not is_there or (place and not Path(place).is_file() and not ledger.books().entries):
        raise DpGraphError(f"there is no ledger at {ledger.place}: correct its place, or make it with ledger restore")
    return ledger


def _policy_of(
    data: Place, policy_file: Path | None, given: dict[str, Any], say: Callable[[str], None] = tell
) -> Policy:
    """Return the policy of a table under these options; say at which strength links are seen that were asked for."""
    from dp_publish.forecast.advice import MOST_TO_SEE, mu_to_see
    from dp_publish.forecast.plan import choose_release
    from dp_publish.forecast.strengths import describe_worth, printed_mu
    from dp_publish.policy.file import load_policy, used_policy

    see, where = given.pop("see", None), (used_policy(data, policy_file), _plain_name(data))
    policy = load_policy(*where, given)
    if see is None:
        return policy
    mu = float(printed_mu(mu_to_see(choose_release(data, policy)[0], see, given["mu"] or MOST_TO_SEE)))
    say(f"by the forecast, links of {see:g} are seen at mu = {mu:g}, where {describe_worth(mu)}")
    return load_policy(*where, {**given, "mu": mu})


def _ask_account(ledger: Ledger, dataset: str, names: Collection[str]) -> None:
    """Refuse to begin an account that nobody chose where another one is of a table with these columns."""
    from dp_publish.ledger.alike import find_alike

    if known := find_alike(ledger.books(), dataset, names):
        same = shlex.join(["--account", known])
        raise PolicyError(
            f"{known!r} has an account, and the same columns: are these the same people? {same} adds the cost to what "
            "they have paid; --new-account begins at nothing, for other people"
        )


def _ask(prepared: Prepared, outlook: Outlook, ledger: Ledger) -> None:
    """Say what would be published, and end unless the answer is yes."""
    from dp_publish.cli.messages.release import describe_before

    for line in describe_before(prepared, outlook, ledger):
        tell(line)
    if not click.confirm("Publish this? It cannot be taken back", default=False, err=True):
        raise DpGraphError("nothing was published, and nothing was spent")


def _write_beside(
    receipt: Receipt, resolved: Policy, key: Ed25519PrivateKey, say: Callable[[str], None]
) -> tuple[Path | RemotePath | None, Path | None]:
    """Write signature and page beside a release that was published, and return where they are."""
    from dp_publish.cli.messages.release import write_page
    from dp_publish.release.publishing import sign_beside

    with already(_done(receipt)):
        minisig, unsigned = sign_beside(receipt, key)
        page, unwritten = write_page(receipt, resolved)
        for remark in filter(None, (unsigned, unwritten)):
            say(f"note: {remark}")
    return minisig, page


def _done(receipt: Receipt) -> str:
    return f"release {receipt.release.lineage.number} is published at {receipt.path} and booked as spent"


def _signing_key(key: str, say: Callable[[str], None]) -> Ed25519PrivateKey:
    if key != DEFAULT_KEY:
        return load_key(key)
    private, is_new = signing_key()
    if is_new:
        fingerprint = public_key_of(private).fingerprint
        say(f"made a signing key: announce its fingerprint, {fingerprint},")
        say(f"or give researchers the file {public_key_path()}")
    return private


def _plain_name(data: Place) -> str:
    from dp_publish.data.dialect import unpacked_name

    name = Path(unpacked_name(data))
    plain = (name.stem if name.suffix else name.name) or (data.resolve().name if isinstance(data, Path) else data.name)
    return os.fsencode(plain).decode("utf-8", "replace")  # a dataset's name is text, whatever bytes the file's name has


def main() -> None:
    """Run dp-publish."""
    run(cli)
