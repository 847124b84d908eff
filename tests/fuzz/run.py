"""Read changed files by the hundred thousand: `python -m tests.fuzz.run archive 1000000`, or `manifest`, or `member`.

A run from case 0 begins with the corpus. A case is its number: `--first N` with a count of 1 repeats it. Each number
goes to stderr before its case, so that one that ends the process is the last there; the sums, and what is wrong, are
printed at the end.
"""

import argparse
import json
import resource
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from random import Random

from tests.fuzz import targets
from tests.fuzz.corpus import corpus
from tests.fuzz.mutate import mutate_archive, mutate_member, mutate_payload

TARGETS = ("archive", "manifest", "member")
MOST_SECONDS = 1.0
MOST_MEGABYTES = 128.0  # on top of what the process had before; one that only reads starts with about 100
_STUCK = 60  # seconds


@dataclass
class Tally:
    """Numbers of cases by outcome, the most that one took, and the numbers of those that went wrong."""

    target: str
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    megabytes: float = 0.0
    wrong: dict[int, str] = field(default_factory=dict)
    started_with: float = 0.0


def case(target: str, number: int) -> tuple[bytes, targets.Seed]:
    """Return the input of a case, and the honest bundle that it was made from; those below 0 are the corpus."""
    random = Random(f"{target} {number}")
    if number < 0:
        return list(corpus(target).values())[-number - 1]
    seed = random.choice(targets.seeds())
    if target == "member":
        return mutate_member(seed.member, random), seed
    if target == "manifest":
        return mutate_payload(seed.payload, random), seed
    return mutate_archive(seed.archive, random.choice(targets.seeds()).archive, random), seed


def run_case(target: str, number: int, tally: Tally) -> None:
    """Run one case and add it to a tally."""
    content, seed = case(target, number)
    honest = {"archive": seed.archive, "manifest": seed.payload, "member": seed.member}[target]
    used, wrong = time.process_time(), ""
    try:
        if target == "member":
            accepted = targets.read_member(content, seed)
        else:
            accepted = {"archive": targets.read_archive, "manifest": targets.read_manifest}[target](content)
        outcome = "unchanged" if content == honest else "accepted" if accepted else "refused"
    except targets.ContradictionError as error:
        outcome, wrong = "contradiction", str(error)
    except BaseException:
        outcome, wrong = "foreign exception", traceback.format_exc()[-600:]
    used = time.process_time() - used
    peak = _peak() - tally.started_with
    if used > MOST_SECONDS or peak > MOST_MEGABYTES > tally.megabytes:
        wrong += f" took {used:.2f} s, {peak:.0f} MB"
    tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
    tally.seconds, tally.megabytes = max(tally.seconds, used), max(tally.megabytes, peak)
    if wrong:
        tally.wrong[number] = wrong


def run(target: str, first: int, count: int) -> Tally:
    """Run so many cases from one number on."""
    before = len(corpus(target))
    tally = Tally(target, started_with=_peak())
    for number in range(first or -before, first + count):
        sys.stderr.write(f"{number}\n")
        signal.alarm(_STUCK)
        run_case(target, number, tally)
    return tally


def _peak() -> float:
    """Return the most memory that this process had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run a target for a number of cases and print the tally as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    tally = run(given.target, given.first, given.count)
    sys.stdout.write(json.dumps(asdict(tally)) + "\n")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
