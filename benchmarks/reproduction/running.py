"""Pieces run side by side: the jobs of all of them share the processes, those that took longest before come first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from reproduction.pieces import Piece
from reproduction.setting import Setting

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """What a piece gave.

    Attributes
    ----------
    piece : Piece
        The piece.
    records : list of dict
        The records of all its jobs, in the order of the jobs.
    seconds : float
        What its jobs took of the processors.
    """

    piece: Piece
    records: Records
    seconds: float


def run_pieces(
    pieces: Sequence[Piece], setting: Setting, n_processes: int, seconds_before: Mapping[str, float]
) -> Iterator[Run]:
    """Yield each piece as soon as its last job is done.

    Parameters
    ----------
    pieces : sequence of Piece
        What to run.
    setting : Setting
        Its size, and its data.
    n_processes : int
        Processes that share the jobs.
    seconds_before : mapping of str to float
        What the pieces took before; a piece that is not there counts as a long one.
    """
    jobs = {piece.name: list(piece.jobs(setting)) for piece in pieces}
    each = {name: seconds_before.get(name, float("inf")) / max(len(own), 1) for name, own in jobs.items()}
    longest_first = sorted(pieces, key=lambda piece: -each[piece.name])
    yield from (Run(piece, [], 0.0) for piece in longest_first if not jobs[piece.name])

    results: dict[str, dict[int, tuple[Records, float]]] = {piece.name: {} for piece in pieces}
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        futures = {
            pool.submit(_timed, piece, job): (piece, index)
            for piece in longest_first
            for index, job in enumerate(jobs[piece.name])
        }
        for future in as_completed(futures):
            piece, index = futures[future]
            own = results[piece.name]
            own[index] = future.result()
            if len(own) == len(jobs[piece.name]):
                yield _run_of(piece, [own[place] for place in range(len(own))])


def _timed(piece: Piece, job: tuple[Any, ...]) -> tuple[Records, float]:
    """Run one job, and return its records and what it, with the commands that it ran, took of the processor."""
    start = os.times()
    records = piece.measure(*job)
    return records, sum(os.times()[:4]) - sum(start[:4])


def _run_of(piece: Piece, done: Sequence[tuple[Records, float]]) -> Run:
    return Run(piece, [record for records, _ in done for record in records], sum(seconds for _, seconds in done))
