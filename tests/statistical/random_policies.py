"""Random policies of every kind of release, with tables of a few rows to publish under them."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_GAPS = ["midpoint", "drop", "indicator"]
_RANGES = [(0.0, 1.0), (-4.0, 4.0), (10.0, 90.0), (-1e6, 3e6), (1e15, 1e15 + 64), (0.0, 1e-120), (-8e299, 8e299)]
_WHOLE = [(0, 1), (0, 1), (0, 2), (0, 5), (-3, 4), (0, 40), (0, 1000), (-(2**40), 2**40)]
_MOMENTS = ["gaussian", "two-round", "laplace", "wishart", "wishart-difference", "eigenvectors"]
_MOMENTS += ["auto", "gaussian", "two-round", "wishart-difference", "scores"]
_COUNTED = ["number", "number", "count", "category", "boolean", "ordered", "date", "duration"]
Entry = dict[str, Any]


class Planned(NamedTuple):
    """A policy as its sections, and a table."""

    sections: dict[str, Any]
    table: pd.DataFrame
    partition: str | None


class Policies:
    """Random policies, several for each dataset, so that releases add up.

    Parameters
    ----------
    seed : int
        Of all that is random.
    of_scores : bool
        Whether all are releases by normal scores.
    """

    def __init__(self, seed: int, *, of_scores: bool = False) -> None:
        self._rng, self._of_scores = np.random.default_rng(seed), of_scores
        self._number, self._left, self._kind, self._weighed = 0, 0, "", False

    def __call__(self) -> Planned:
        """Return the next one."""
        if not self._left:
            self._number += 1
            self._left = int(self._rng.choice([1, 2, 3]))
            kinds = ["cell", "change", "moments", "row", "row", "entity", "whole"]
            self._kind = str(self._rng.choice(["cell", "row", "entity"] if self._of_scores else kinds))
            self._parts = bool(self._rng.random() < 0.1)
            self._limits: dict[str, int] = {}
        self._left -= 1
        return self._planned()

    def _planned(self) -> Planned:
        rng, name = self._rng, _spell(self._number)
        moments = self._kind == "moments" or (self._kind in ("row", "entity") and rng.random() < 0.2)
        moments = moments or self._of_scores
        self._weighed = not moments and self._kind in ("row", "entity", "whole")
        if moments:
            privacy = self._moments()
            scored = "scale" in privacy
            columns = self._columns(_COUNTED if scored else ["number"], found=False)
            for entry in columns.values():
                gaps = {"count": 3, "integer": 3, "boolean": 1, "category": 1}.get(entry["kind"], 4)
                entry["missing"] = str(rng.choice(["refuse", "drop", "midpoint", "indicator"][:gaps]))
                entry.pop("mechanism", None)
        else:
            columns, privacy = self._rows()
        n_rows = int(rng.integers(8, 30)) if not moments else int(rng.integers(20, 60))
        table = pd.DataFrame({key: self._values(entry, n_rows) for key, entry in columns.items()})
        if self._kind in ("entity",) or isinstance(privacy.get("unit"), dict):
            table["who"] = [f"p{number}" for number in rng.integers(0, max(2, n_rows // 3), n_rows)]
            columns["who"] = {"drop": True}
        if rng.random() < 0.15:
            privacy["budget_mu"] = 1e6
        sections = {"dataset": {"name": name, "license": "public domain"}, "privacy": privacy, "columns": columns}
        parts = _LETTERS[self._left] if self._parts else None
        return Planned(sections, table, parts)

    def _rows(self) -> tuple[dict[str, Entry], dict[str, Any]]:
        """Return the columns and the strength of a release of rows."""
        rng, kind = self._rng, self._kind
        unit: Any = {"entity": {"entity": "who", "max_rows": int(rng.choice([1, 2, 3, 8]))}}.get(kind, kind)
        unit = unit if kind in ("cell", "change", "entity") else "row"
        kinds = {"change": ["count"], "whole": ["count", "boolean", "category"]}.get(kind)
        kinds = kinds or ["number", "number", "count", "category", "boolean", "ordered", "date", "duration"]
        found = kind not in ("change",) and rng.random() < 0.3
        columns = self._columns(kinds, found=found)
        if kind == "change":
            for name, entry in columns.items():
                limit = self._limits.setdefault(name, int(rng.choice([1, 1, 2, 10])))
                entry |= {"max_change": limit, "missing": "refuse"}
        strength = self._strength(own=not found)
        return columns, {"unit": unit, **strength}

    def _columns(self, kinds: list[str], *, found: bool) -> dict[str, Entry]:
        rng = self._rng
        wide = kinds[0] == "number" and not found and self._kind == "row" and rng.random() < 0.03
        number = 130 if wide else int(rng.choice([1, 2, 3, 3, 4, 5]))
        chosen = ["number"] * number if wide else [str(rng.choice(kinds)) for _ in range(number)]
        return {f"c{_spell(place)}": self._column(kind, found=found) for place, kind in enumerate(chosen)}

    def _column(self, kind: str, *, found: bool) -> Entry:
        rng = self._rng
        gaps = str(rng.choice(_GAPS)) if rng.random() < 0.4 else "refuse"
        number = {"missing": gaps, **({"weight": float(rng.choice([0.2, 3.0]))} if self._weighs() else {})}
        if kind == "number":
            low, high = _RANGES[int(rng.choice(len(_RANGES), p=[0.3, 0.3, 0.2, 0.1, 0.04, 0.03, 0.03]))]
            return {"kind": "continuous", **number, **({} if found and rng.random() < 0.7 else {"bounds": [low, high]})}
        if kind == "count":
            low, high = _WHOLE[int(rng.integers(len(_WHOLE)))]
            gaps = gaps if gaps in ("midpoint", "drop") else "refuse"
            found = found and rng.random() < 0.5
            return {"kind": "integer", **number, "missing": gaps, **({} if found else {"bounds": [low, high]})}
        if kind == "boolean":
            return {"kind": "boolean", "levels": ["no", "yes"], "missing": "refuse", **self._mechanism()}
        if kind == "category":
            levels = ["one", "two", "three", "four", "five", "six", "seven"][: int(rng.integers(2, 8))]
            other = {"other": "else"} if rng.random() < 0.3 else {}
            return {"kind": "category", "categories": levels, "missing": "refuse", **other, **self._mechanism()}
        if kind == "ordered":
            return {"kind": "ordered", "levels": ["low", "middle", "high", "top"], **number}
        if kind == "date":
            return {"kind": "date", "bounds": [0, 20000], **number}
        return {"kind": "duration", "bounds": [0, 86400], **number}

    def _weighs(self) -> bool:
        return self._weighed and bool(self._rng.random() < 0.15)

    def _mechanism(self) -> Entry:
        wanted = str(self._rng.choice(["", "", "gaussian", "randomized-response"]))
        return {"mechanism": wanted} if wanted else {}

    def _strength(self, *, own: bool) -> dict[str, Any]:
        """Return a strength; one that fixes the noise only where bounds are given."""
        rng = self._rng
        mu = float(rng.choice([self._log(0.05, 12.0), self._log(0.5, 6.0), 4.7, 1.0, self._log(1e-3, 100.0)]))
        ways = ["mu", "mu", "mu", "rho", "epsilon", *(["sigma"] if own else [])]
        way = str(rng.choice(ways))
        if way == "epsilon":
            delta = float(rng.choice([1e-6, 10 ** -rng.uniform(1, 12), 1e-300, 0.5]))
            return {"epsilon": self._log(0.05, 30.0), "delta": delta}
        others = {"rho": mu * mu / 2, "sigma": self._log(0.06, 60.0)}
        return {way: others.get(way, mu)}

    def _moments(self) -> dict[str, Any]:
        """Return the mechanism and the strength of second moments."""
        rng, mechanism = self._rng, "scores" if self._of_scores else str(self._rng.choice(_MOMENTS))
        unit: Any = {"entity": "who", "max_rows": int(rng.choice([2, 5]))} if self._kind == "entity" else "row"
        unit = "cell" if self._kind == "cell" else unit
        removes = rng.random() < 0.4 and unit != "cell" and mechanism not in ("two-round", "scores")
        mu = self._log(0.05, 20.0)
        strength: dict[str, Any] = {"mu": mu} if rng.random() < 0.6 else {"rho": mu * mu / 2}
        if mechanism == "wishart":
            unit = "row"
            strength = {"epsilon": self._log(0.3, 8.0), "delta": 10 ** -float(rng.uniform(3, 9))}
        elif mechanism in ("laplace", "wishart-difference", "eigenvectors") and rng.random() < 0.7:
            strength = {"epsilon": self._log(0.1, 20.0)}
        elif rng.random() < 0.3:
            strength = {"epsilon": self._log(0.1, 20.0), "delta": 10 ** -float(rng.uniform(2, 12))}
        neighbours = {"neighbours": "add-remove"} if removes else {}
        how = {"scale": "scores"} if mechanism == "scores" else {"release": "covariance", "mechanism": mechanism}
        return {**how, "unit": unit, **strength, **neighbours}

    def _log(self, low: float, high: float) -> float:
        return float(math.exp(self._rng.uniform(math.log(low), math.log(high))))

    def _values(self, entry: Entry, n_rows: int) -> list[Any]:
        """Return values of a column, a few of them missing where its policy deals with that."""
        rng, kind = self._rng, entry["kind"]
        if kind in ("category", "ordered", "boolean"):
            values: list[Any] = [str(each) for each in rng.choice(entry.get("categories") or entry["levels"], n_rows)]
        elif kind == "date":
            values = list(pd.Timestamp("1999-01-01") + pd.to_timedelta(rng.integers(0, 4000, n_rows), unit="D"))
            values = [each.date() for each in values]
        elif kind == "duration":
            values = [pd.Timedelta(seconds=int(each)) for each in rng.integers(0, 80000, n_rows)]
        else:
            low, high = entry.get("bounds", (-20, 20))
            values = (low * 0.5 + high * 0.5 + rng.normal(size=n_rows) * (0.2 * high - 0.2 * low)).tolist()
            values = [round(each) for each in values] if kind == "integer" else values
        if entry["missing"] in _GAPS:
            for place in range(n_rows // 5):
                values[3 * place] = None
        if kind == "integer":
            return pd.array(values, dtype="Int64")  # type: ignore[return-value]
        return values


def _spell(number: int) -> str:
    """Return a number in letters, so that no name has a digit."""
    return (_spell(number // 26 - 1) if number >= 26 else "") + _LETTERS[number % 26]
