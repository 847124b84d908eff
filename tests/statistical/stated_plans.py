"""The claims of a plan, in the terminal, for a machine, and on its page, about the strength of its policy."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
import tomlkit
from tests.statistical.random_policies import Planned
from tests.statistical.stated_figures import Claim, N, number, shown

from dp_publish.cli.desk.answer import spending_of
from dp_publish.cli.messages.plan import describe_plan, plan_document
from dp_publish.forecast.page.report import make_page
from dp_publish.forecast.page.texts import Asked
from dp_publish.forecast.plan import Plan, make_plan
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.file import load_policy

_AT = re.compile(rf"[Aa]t mu = {N}")
_OF_PAPER = re.compile(rf"protect one \w+ at mu = {N}\.")
_STRENGTH = {
    "mu": re.compile(rf"mu = {N}"),
    "rho": re.compile(rf"rho = {N}"),
    "epsilon": re.compile(rf"epsilon = {N}"),
    "excepted": re.compile(rf"except with a probability of {N}"),
}
_BEFORE = re.compile(rf"so far costs? mu = {N}")
_AFTER = re.compile(rf"the total would be {N}\.")
_ODDS = re.compile(rf"at most a factor of {N}: a suspicion of 1 in 1,000 becomes {N} % or less")


def plan_of(planned: Planned, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return the plan of a table and a policy, of the policy's own strength and one other; nothing else is left out."""
    data, policy = folder / "planned.parquet", folder / "planned.toml"
    pa.parquet.write_table(pa.Table.from_pandas(planned.table, preserve_index=False), data)
    policy.write_text(tomlkit.dumps(planned.sections))
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.forecast.plan.GRID", (2.0,))
        return make_plan(data, load_policy(policy, "planned", {}))


def claims_of_plan(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> list[Claim]:
    """Return the claims; none where the policy's own strength cannot be forecast."""
    if plan.own is None:
        return []
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.forecast.page.texts._BETWEEN", ())
        patch.setattr("dp_publish.forecast.page.texts._BETWEEN_DISCRETE", ())
        page = make_page(plan, Asked("planned.parquet", account=spending_of(Ledger(), plan.policy)))
    return [*_of_terminal(plan), *_of_document(plan), *_of_page(page)]


def _of_terminal(plan: Plan) -> Iterator[Claim]:
    text = describe_plan(plan)
    for line in text.splitlines():
        if line.endswith("<- policy"):
            cells = line.split()
            yield Claim("mu", number(cells[0]), "own", "plan, table")
            if "%" not in line and cells[1] != "-" and "delta" in text and len(cells) > 5 and not plan.is_pure:
                yield from _epsilon(cells[1], "plan, table")
                break
    words = " ".join(text.split("Assumed:")[1].split())
    for pattern in (_AT, _OF_PAPER):
        yield from (Claim("mu", number(mu), "own", "plan, sentences") for mu in pattern.findall(words))


def _epsilon(cell: str, place: str) -> Iterator[Claim]:
    if re.fullmatch(N, cell):
        yield Claim("point", number(cell), "own", place, 1e-6)


def _of_document(plan: Plan) -> Iterator[Claim]:
    document = plan_document(plan)
    yield Claim("mu", document["own_mu"], "own", "plan of a machine")
    for row in document["forecast"]:
        if row["mu"] == document["own_mu"]:
            yield Claim("mu", row["mu"], "own", "plan of a machine")
            if row["epsilon"] is not None:
                yield Claim("point", row["epsilon"], "own", "plan of a machine", row["delta"])


def _of_page(page: str) -> Iterator[Claim]:
    texts = {name: shown(text) for name, text in re.findall(r'data-say="([^"]+)">([^<]*)<', page)}
    assert texts["own"], "the page is about another strength"
    place = "plan, page"
    yield Claim("mu", number(texts["mu"]), "own", place)
    for kind, pattern in _STRENGTH.items():
        yield from (Claim(kind, number(value), "own", place) for value in pattern.findall(texts["strength"]))
    for name, text in texts.items():
        kind, _, which = name.partition("-")
        if kind in ("power", "miss"):
            yield Claim(kind, _share(text), "own", place, float(which))
        elif kind == "guess" and which not in ("two", "2"):
            yield Claim("among", _share(text), "own", place, 1 / float(which))
        elif kind == "guess" and which == "two":
            yield Claim("right", _share(text), "own", place)
        elif kind == "epsilon":
            yield Claim("point", number(text), "own", place, float(which))
        elif kind == "belief":
            for factor, belief in _ODDS.findall(text):
                odds = number(factor)
                assert number(belief) / 100 >= odds / (odds + 999) * (1 - 1e-2)  # it is of the factor before rounding
                yield Claim("odds", odds, "own", place, float(which))
    yield from (Claim("mu", number(mu), "before", "plan, budget") for mu in _BEFORE.findall(texts["budget"]))
    yield from (Claim("mu", number(mu), "all", "plan, budget") for mu in _AFTER.findall(texts["budget"]))
    yield from _of_data(page, number(texts["mu"]))


def _of_data(page: str, mu: float) -> Iterator[Claim]:
    """Yield the numbers of the trade-off curve, at the places that the table has as well."""
    table = re.search(r'(?s)<table id="strengths".*?</table>', page) or re.search(
        r'(?s)id="strengths".*?</table>', page
    )
    assert table is not None
    for row in re.findall(r"(?s)<tr.*?</tr>", table[0]):
        cells = [shown(cell).strip() for cell in re.findall(r"(?s)<t[hd].*?</t[hd]>", row)]
        if cells[0] == f"{mu:g}":
            yield Claim("mu", number(cells[0]), "own", "plan, table of the page")
            if "epsilon is at" in table[0] or "epsilon is at" in page:
                yield from _epsilon(cells[1], "plan, table of the page")


def _share(text: str) -> float:
    return number(text.removesuffix(" %")) / 100
