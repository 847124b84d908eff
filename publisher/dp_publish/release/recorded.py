"""The steps of a release that has a job, from the reservation to the end, each of which can be the last of a process.

Every step first looks whether it was done: the ledger knows the release by the job's mark, the job has records of what
was drawn, and the bundle's place is asked what lies there. Sealing again gives the same bytes, as the records and the
key decide on all of them. A reservation is taken back only if nothing was recorded of what was drawn: afterwards, a
part could have been looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import BinaryIO

from dp_bundle.base.errors import DpGraphError, StoreError
from dp_bundle.base.launch import interrupts_held
from dp_bundle.files.new_files import settle
from dp_bundle.manifest.release import Release
from dp_publish.data.missing import RowReport
from dp_publish.ledger.ledger import Ledger, Reservation
from dp_publish.release.contents import may_reveal_noise
from dp_publish.release.job import Job
from dp_publish.release.targets import Target

_PASSING = (OSError, StoreError, MemoryError, KeyboardInterrupt)  # after which it makes sense to go on


def carry_out(
    job: Job,
    ledger: Ledger,
    book: Callable[[], Reservation],
    target: Target,
    make: Callable[[Reservation, BinaryIO], tuple[Release, str, bytes]],
    describe: Callable[[], tuple[RowReport, str | None]],
) -> tuple[Release, tuple[str, bytes], Reservation, RowReport, str | None]:
    """Do what is left of a release, and delete its job.

    Parameters
    ----------
    job : Job
        Its records.
    ledger : Ledger
        Where it is booked.
    book : callable
        Books it, if it is not on the books.
    target : Target
        Where the bundle goes.
    make : callable
        Draws what has no record, and writes the bundle.
    describe : callable
        Returns what was done to the rows, and the remark, after that.
    """
    reservation: Reservation | None = None
    try:
        # 1. It is paid for, once, before any noise is drawn.
        with interrupts_held():
            reservation = book()
            if job.read("reserved") is None:
                job.record("reserved", {"number": reservation.lineage.number})
        state = ledger.state(reservation)

        # 2. The bundle is made, or made again of what was recorded, and put in its place.
        if state != "published":
            _place(job, ledger, reservation, target, make, describe, is_sealed=state == "sealed")
            ledger.commit(reservation, job.read("sealed")["manifest_sha256"], _recorded(target))
    except BaseException as error:
        _take_back_or_explain(job, ledger, reservation, error)
        raise

    # 3. It is published, and the job has done its work.
    sealed = job.read("sealed")
    if sealed is not None:
        release = Release.model_validate_json(sealed["release"])
        digests = sealed["manifest_sha256"], bytes.fromhex(sealed["blake2b"])
        report, remark = RowReport(**sealed["report"]), sealed["remark"]
    job.remove()
    if sealed is None:  # the process before ended while it deleted the job
        raise DpGraphError(f"release {reservation.lineage.number} is published already, at {target.path}")
    return release, digests, reservation, report, remark


def _place(
    job: Job,
    ledger: Ledger,
    reservation: Reservation,
    target: Target,
    make: Callable[[Reservation, BinaryIO], tuple[Release, str, bytes]],
    describe: Callable[[], tuple[RowReport, str | None]],
    *,
    is_sealed: bool,
) -> None:
    """Make the bundle and put it in its place, unless it is there; one that was sealed before has the same bytes."""
    entry = ledger.entry(reservation) if is_sealed else None
    booked = entry.manifest_sha256 if entry is not None else None
    sealed = job.read("sealed")
    if booked is not None and sealed is not None and sealed["manifest_sha256"] == booked and target.finish(booked):
        return
    try:
        with target.staging() as file:
            release, digest, whole = make(reservation, file)
            settle(file)
            if not is_sealed:
                target.require_free()
            if digest != (booked or digest) or (sealed is not None and digest != sealed["manifest_sha256"]):
                raise DpGraphError(
                    "the bundle would not have the bytes that were sealed: resume with the version of dpgraph and of "
                    "its libraries that began the job, and with its records as they were"
                )
            if sealed is None:
                report, remark = describe()
                said = {"release": release.model_dump_json(), "report": asdict(report), "remark": remark}
                job.record("sealed", {"manifest_sha256": digest, "blake2b": whole.hex(), **said})
            if not is_sealed:
                ledger.seal(reservation, digest, _recorded(target))
    except (OSError, StoreError):
        sealed = job.read("sealed")
        if sealed is None or not target.holds(sealed["manifest_sha256"]):
            raise


def _take_back_or_explain(job: Job, ledger: Ledger, reservation: Reservation | None, error: BaseException) -> None:
    """Cancel a release of which nothing can have been seen, and say how to go on with any other."""
    if isinstance(error, _PASSING) or job.has_drawn or (reservation is not None and may_reveal_noise(error)):
        booked = "" if reservation is None else f"release {reservation.lineage.number} stays on the books as spent: "
        error.add_note(f"{booked}`{job.command}` goes on with it, at no further cost")
        return
    if reservation is not None:
        try:
            ledger.cancel(reservation)
        except DpGraphError as failure:
            error.add_note(
                f"release {reservation.lineage.number} is not published, and stays on the books as spent, as it could "
                f"not be taken back ({failure}): `{job.command}` goes on with it, at no further cost"
            )
            return
        error.add_note(
            f"nothing was published, and nothing is booked; the release number {reservation.lineage.number} will not "
            "be used again"
        )
    job.remove()


def _recorded(target: Target) -> str:
    return os.fsencode(target.path).decode("utf-8", "backslashreplace")  # a log is text, whatever bytes a name has
