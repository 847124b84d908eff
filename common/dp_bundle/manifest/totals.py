"""Checks that a stated total can be that of all releases so far, of which this one is the last."""

from __future__ import annotations

from collections.abc import Sequence

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.costs import unit_rhos
from dp_bundle.manifest.guarantee import Cumulative, Guarantee

_SLACK = 1e-9  # relative: what separately rounded floats may differ by


def check_total(total: Cumulative, guarantee: Guarantee | None) -> None:
    """Refuse, by ValueError, a total that is smaller than the release's own cost."""
    if guarantee is None:
        if total.mu is not None or total.rho is not None or total.other_units_rho:
            raise ValueError("a total is stated although this release has no guarantee")
        if total.unit not in ("cell", "row", "change") and not total.unit.startswith("entity:"):
            raise ValueError("the stated total is about no unit of privacy")
        return
    if total.unit != (guarantee.unit if guarantee.entity is None else f"entity:{guarantee.entity}"):
        raise ValueError("the stated total is about another unit of privacy")
    if total.mu is not None and total.rho is None:
        raise ValueError("the stated total has a mu and no rho")
    if total.mu is not None and (guarantee.mu is None or total.mu < guarantee.mu * (1 - _SLACK)):
        raise ValueError("the stated total mu is smaller than this release's own")
    if total.rho is not None and total.rho < guarantee.rho * (1 - _SLACK):
        raise ValueError("the stated total rho is smaller than this release's own")
    if total.excepted_delta < guarantee.excepted_delta * (1 - _SLACK):
        raise ValueError("the stated total delta is smaller than this release's own")


def check_total_in_every_unit(total: Cumulative, guarantee: Guarantee, columns: Sequence[Column]) -> None:
    """Refuse, by ValueError, totals that leave out a unit that the release protects, or are below its cost in it."""
    own = unit_rhos(guarantee, columns, total.unit)
    others = {*own} - {total.unit} if total.rho is not None else set[str]()
    if {*total.other_units_rho} != others:
        raise ValueError("totals are stated in all units that this release protects, or in none")
    for unit, rho in {total.unit: total.rho, **total.other_units_rho}.items():
        if rho is not None and rho < own[unit] * (1 - _SLACK):
            raise ValueError(f"the stated total per {unit} is smaller than this release's own")
