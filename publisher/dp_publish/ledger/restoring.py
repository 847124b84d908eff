"""Restoration of a ledger from published bundles: releases that it lacks, and totals that it does not reach.

A bundle states its own cost, by bounds and noise, and the total of its dataset at the time. Both are signed by the
publisher, so that her own bundles are witnesses of what her ledger once held.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.base.errors import BundleError, KeyStoreError, UntrustedKeyError
from dp_bundle.bundle.reading import find_bundles, open_bundle
from dp_bundle.files.new_files import home_folder
from dp_bundle.manifest.costs import booked_rhos, unit_costs
from dp_bundle.manifest.discrete_mu import largest_mu_for_rho
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import TrustedKey, UnsafeTrustAnyone
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import load_public_key
from dp_publish.accounting.conversions import ROUND_UP, Cost
from dp_publish.ledger.books import Books
from dp_publish.ledger.budget import Account, Entry
from dp_publish.ledger.ledger import Ledger

_SLACK = 1e-6  # relative: what a stated total may differ by from the sum of stated costs


@dataclass(frozen=True)
class Restoration:
    """Everything that `restore` did.

    Attributes
    ----------
    damaged : Path or None
        Where a damaged ledger is now.
    n_lines : int
        How many lines of the log came from the copy beside the key.
    put_back : list of Entry
        Releases that the log then lacked, those lost among them, of which only a total tells.
    skipped : dict of Path to str
        Files in a folder that are no witnesses, and why.
    rewritten : list of Path
        Bundles whose ledger at the time was another one than this.
    doubled : list of (str, int)
        Datasets and numbers of which there are two releases.
    without_budget : list of str
        Datasets with releases that were put back, and no budget in the ledger: bundles tell of none.
    """

    damaged: Path | None
    n_lines: int
    put_back: list[Entry]
    skipped: dict[Path, str]
    rewritten: list[Path]
    doubled: list[tuple[str, int]]
    without_budget: list[str]


class _OwnKeys(UnsafeTrustAnyone):
    """Trusts the user's own keys alone, and remembers nothing."""

    def __init__(self) -> None:
        self._folder = home_folder() / "keys"
        self._keys = {load_public_key(path.stem) for path in sorted(self._folder.glob("*.pub"))}

    def require(self, key: PublicKey) -> TrustedKey:
        """Return one of the user's own keys, or refuse."""
        if key not in self._keys:
            raise UntrustedKeyError(
                key.fingerprint,
                f"the bundle was signed by {key.fingerprint}, which is not one of your keys, so it says nothing about "
                f"your ledger: if the key is yours, put its .pub file into {self._folder}",
            )
        return TrustedKey(key, "own key")


def restore(ledger: Ledger, places: Sequence[Path]) -> Restoration:
    """Put back in the ledger what they lack, from the copy beside the key and from the publisher's own bundles.

    Parameters
    ----------
    ledger : Ledger
        It may be missing, rolled back, altered or damaged.
    places : sequence of Path
        Bundles, and folders of bundles. What a bundle's total says beyond all releases known then is put in the ledger
        as one lost release, so give all bundles at once.

    Returns
    -------
    Restoration

    Raises
    ------
    BundleError
        A bundle is not to be trusted, or not the publisher's own; nothing is changed.
    """
    witnesses, skipped = _read_witnesses(places)
    damaged, n_lines = ledger.log.rebuild()
    before = ledger.books()
    put_back = ledger.put_back(
        sorted((entry for entry, _ in witnesses), key=lambda entry: (entry.dataset, entry.number))
    )

    books = ledger.books()
    for _, release in sorted(witnesses, key=lambda witness: witness[0].number):
        lost = _lost(books, release)
        if lost is not None:
            put_back += ledger.put_back([lost])
            books = ledger.books()
    known = {(entry.dataset, entry.number) for entry in before.entries.values()}
    rewritten = [
        Path(entry.file or "")
        for entry, release in witnesses
        if (entry.dataset, entry.number) in known and release.lineage.ledger_head not in (None, *before.heads)
    ]
    numbered = Counter((entry.dataset, entry.number) for entry in books.entries.values() if entry.state != "lost")
    doubled = sorted(place for place, times in numbered.items() if times > 1)
    without_budget = sorted({entry.dataset for entry in put_back if not books.budgets.get(entry.dataset)})
    return Restoration(damaged, n_lines, put_back, skipped, rewritten, doubled, without_budget)


def cost_of_release(release: Release) -> Cost:
    """Return what a release cost for every unit of privacy that it protects, by its bounds and noise."""
    guarantee, unit = release.guarantee, release.cumulative.unit
    continuous = guarantee.mu is not None
    mu = {each: cost * ROUND_UP for each, cost in unit_costs(guarantee, release.columns, unit).items()}
    rhos = {} if continuous else booked_rhos(guarantee, release.columns, unit)
    rho = {each: cost * ROUND_UP**2 for each, cost in rhos.items()}
    moments = release.second_moments
    excepted = 0.0 if moments is None else moments.noise.excepted_for_replacement(guarantee)
    changes = {column.name: column.max_change for column in release.columns} if unit == "change" else {}
    return Cost(unit, mu, continuous, excepted, changes, rho)


def _read_witnesses(places: Sequence[Path]) -> tuple[list[tuple[Entry, Release]], dict[Path, str]]:
    """Verify the bundles; in a folder, files that are not the publisher's own bundles are left out."""
    try:
        own = _OwnKeys()
    except OSError as error:
        raise KeyStoreError(f"the public keys in {home_folder() / 'keys'} cannot be read: {error.strerror}") from error
    witnesses, skipped = [], {}
    for place in places:
        for path in find_bundles(place) if place.is_dir() else [place]:
            try:
                with open_bundle(path, own) as bundle:
                    release, digest = bundle.release, bundle.manifest_sha256
            except BundleError as error:
                if path == place:
                    raise
                skipped[path] = str(error)
                continue
            name, lineage, cost = release.dataset.name, release.lineage, cost_of_release(release)
            booked = (name, lineage.partition, lineage.number, lineage.created, cost)
            witnesses.append((Entry(*booked, "published", digest, str(path)), release))
    return witnesses, skipped


def _lost(books: Books, release: Release) -> Entry | None:
    """Return what a release's stated total has beyond the books, as one release more; None if it has nothing.

    What was cancelled since may have been in the total, and is no loss.
    """
    stated, number = release.cumulative, release.lineage.number
    known = books.of(release.dataset.name)
    account = Account(tuple(entry for entry in known if entry.number <= number))
    beyond: dict[str, float] = {}
    for unit, rho in {stated.unit: stated.rho, **stated.other_units_rho}.items():
        shown = account.rho(unit)
        if shown is not None:
            more = math.inf if rho is None else rho - shown
            beyond[unit] = more if more > shown * _SLACK else 0.0
    excepted = stated.excepted_delta - account.excepted_delta
    excepted = excepted if excepted > _SLACK * stated.excepted_delta else 0.0
    if not any(beyond.values()) and not excepted:
        return None

    continuous = stated.mu is not None
    lost = {} if math.inf in beyond.values() else beyond
    mu = {unit: math.sqrt(2 * rho) if continuous else largest_mu_for_rho(rho) for unit, rho in lost.items()}
    cost = Cost(stated.unit, mu, continuous, excepted, rho={} if continuous else lost)
    numbers = {entry.number for entry in known}
    gap = next((each for each in range(1, number) if each not in numbers), number)
    return Entry(release.dataset.name, None, gap, release.lineage.created, cost, state="lost")
