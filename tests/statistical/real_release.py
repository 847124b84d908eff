"""What a release really loses for a unit of privacy, from its noise and the definitions: the judge of what is stated.

Nothing of the accountant is used: the noise is that of the manifest's columns and matrices, which is compared with the
parameters that the samplers were called with (`Drawn`), and what is not in a manifest, the searches, is what was drawn.
For each unit there are alternatives, by the raw cell that differs, of which the worst counts; "*" is a whole row.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pytest
from tests.statistical.real_law import Law, choice, discrete_gaussian, gaussian, product, response
from tests.statistical.real_moments import law_of_moments

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.release import Release
from dp_publish.sampling.exponential import ExponentialMechanism

Alternatives = dict[str, Law]
TWO_ROUNDS = "dp_publish.covariance.two_rounds"


@dataclass
class Drawn:
    """The parameters of everything that was drawn for one release.

    Attributes
    ----------
    noise : list of (str, float)
        Of noise on cells: its kind, and sigma in steps, or the probability of another level.
    choices : list of float
        Of every private choice: how far the log-ratios of its probabilities can vary when a row moves.
    counts : list of float
        The standard deviation of the noise on counts of rows, and last, on lengths, of a release in two rounds.
    """

    noise: list[tuple[str, float]] = field(default_factory=list)
    choices: list[float] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drawn]:
    """Note with which parameters noise is drawn and choices are made, meanwhile."""
    drawn = Drawn()

    def noting(module: str, name: str, note: Callable[..., None]) -> None:
        original = getattr(importlib.import_module(module), name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            note(*arguments)
            return original(*arguments, **named)

        patch.setattr(f"{module}.{name}", wrapped)

    choose = ExponentialMechanism.choose

    def chooses(mechanism: ExponentialMechanism, *arguments: Any) -> int:
        first, second = mechanism.weights(2) if len(mechanism.weights(2)) > 1 else (1, 1)
        sides = 1 if mechanism.one_sided else 2  # as `audit` and test_thresholds.py find of the scores
        drawn.choices.append(sides * (math.log(first) - math.log(second)))  # -ln b, or -2 ln b
        return choose(mechanism, *arguments)

    rows = "dp_publish.rows"
    with monkeypatch.context() as patch:
        noting(f"{rows}.noise", "sample_rounded_gaussian", lambda s, *_: drawn.noise.append(("rounded-gaussian", s)))
        noting(f"{rows}.noise", "sample_discrete_gaussian", lambda s, *_: drawn.noise.append(("discrete-gaussian", s)))
        noting(f"{rows}.noise", "sample_replacements", lambda _n, r, *_: drawn.noise.append(("response", r / 2**32)))
        noting(f"{TWO_ROUNDS}.steps", "sample_rounded_gaussian", lambda s, *_: drawn.counts.append(s))
        patch.setattr(ExponentialMechanism, "choose", chooses)
        yield drawn


def require_as_stated(release: Release, drawn: Drawn) -> None:
    """Fail unless the noise on rows, or on histograms, was drawn with the parameters that the manifest states."""
    if release.margins is not None:
        assert math.isclose(release.margins.sigma, drawn.counts[-2], rel_tol=1e-12)
    stated: list[tuple[str, float]] = []
    before: str | None = None
    for column in release.columns:
        if column.response is not None:
            again = column.block is not None and column.block == before
            stated += [] if again else [("response", column.response.replaced)]
        elif column.noise is not None:
            stated.append((column.cell_noise.distribution, column.cell_noise.sigma / column.cell_noise.granularity))
        before = column.block
    assert len(drawn.noise) % max(len(stated), 1) == 0
    for (kind, sigma), (other, drawn_sigma) in zip(stated * 99, drawn.noise, strict=False):
        assert kind == other
        assert math.isclose(sigma, drawn_sigma, rel_tol=1e-12), (kind, sigma, drawn_sigma)


def real_laws(
    release: Release, drawn: Drawn, unit: str, *, rows: int = 1, replaced: bool = False, sharper: float = 1.0
) -> Alternatives:
    """Return the alternatives for one unit.

    Parameters
    ----------
    release : Release
        What was published.
    drawn : Drawn
        What was drawn for it.
    unit : str
        "cell", "change", or "row", which also stands for as many `rows` of an entity or a person.
    rows : int
        How many rows move together.
    replaced : bool
        Of second moments: that rows are replaced, whatever the guarantee speaks of.
    sharper : float
        Factor on the distance that everything moves: of a wrong judge, who must be told from a right one.
    """
    if release.second_moments is not None:
        return {
            "*": law_of_moments(release, drawn.choices, rows, replaced=replaced, sharper=sharper, counts=drawn.counts)
        }
    columns = release.columns
    laws = _of_cells(columns, unit, sharper)
    n_searched = len(drawn.choices) // 2
    found = [column.name for column in columns if column.bounds_found]
    if unit == "row":
        searches = [choice(rows * each) for each in drawn.choices[: 2 * n_searched]]
        return {"*": product([*(law.power(rows) for law in laws.values()), *searches])}
    for place, name in enumerate(found):
        laws[name] = product([laws[name], *(choice(each) for each in drawn.choices[2 * place : 2 * place + 2])])
    return laws


def worst_of(laws: Alternatives) -> Law:
    """Return the one that is told best."""
    return min(laws.values(), key=lambda law: law.wrong)


def _of_cells(columns: Sequence[Column], unit: str, sharper: float) -> Alternatives:
    """Return what each cell moves, from one end of its bounds to the other, or by one change."""
    laws: Alternatives = {}
    for block, group in groupby(columns, key=lambda column: column.block or f"\0{column.name}"):
        members = list(group)
        first, name = members[0], block.removeprefix("\0")
        if first.response is not None:
            laws[name] = response(first.response.replaced, first.response.n_levels)
        elif len(members) == 1:
            laws[name] = _of_column(first, unit, sharper)
        elif first.missing == "indicator":
            alone, gap = _of_column(first, unit, sharper), gaussian(sharper / members[1].cell_noise.sigma)
            half = gaussian(sharper * 0.5 * _width(first) / first.cell_noise.sigma)
            laws[name] = max(alone, half.times(gap), key=lambda law: law.shift)
        else:
            laws[name] = _of_column(first, unit, sharper).times(_of_column(members[1], unit, sharper))
    return laws


def _of_column(column: Column, unit: str, sharper: float) -> Law:
    low, high = column.bounds or (-math.inf, math.inf)
    reach = high - low
    if unit == "change" and column.max_change is not None:
        reach = min(reach, column.max_change)
    noise = column.cell_noise
    if math.isinf(reach):
        return gaussian(math.inf)
    if noise.distribution == "rounded-gaussian":
        return gaussian(sharper * reach / noise.sigma)
    steps = min(math.floor(reach), math.floor(high) - math.ceil(low))
    return discrete_gaussian(steps, noise.sigma / sharper)


def _width(column: Column) -> float:
    return column.bounds[1] - column.bounds[0] if column.bounds else math.inf
