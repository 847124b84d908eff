"""Voltages of power grids, simulated: the measurements of Guo et al. on 11 and 115 buses are not to be had.

Each row is one AC load flow, solved by steps with the Jacobian of the base case, which PYPOWER solves. Every bus but
the reference has, besides its load or generator, an independent Gaussian change of its active and reactive power, and
its voltage magnitude is free; the magnitudes, standardised, are the row. The truth is which buses a line in service
connects.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reproduction.data_sets import Floats, standardise
from reproduction.setting import seed

CASES = {"grid of 14 buses": "case14", "grid of 33 buses": "case33bw", "grid of 118 buses": "case118"}
N_ROWS = 2000
CHANGE = 0.02  # standard deviation of a bus's change, relative to the mean load of the grid
PD, QD, VM, VA = 2, 3, 7, 8  # columns of the cases' tables of buses
F_BUS, T_BUS, STATUS = 0, 1, 10  # of branches
TOL, MAX_ITER = 1e-9, 100  # per unit


@cache
def grid_voltages(name: str, data: Path) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the standardised magnitudes of the voltages, one row for each load flow, and which buses are linked."""
    from pypower.api import bustypes, dSbus_dV, ext2int, makeSbus, makeYbus, ppoption, runpf

    case, converged = runpf(_load(CASES[name], data), ppoption(VERBOSE=0, OUT_ALL=0))
    if not converged:
        raise RuntimeError(f"the load flow of {name} did not converge")
    inner = ext2int(case)
    bus = inner["bus"]
    admittance = makeYbus(inner["baseMVA"], bus, inner["branch"])[0]
    reference = bustypes(bus, inner["gen"])[0]
    free = np.setdiff1d(np.arange(len(bus)), reference)
    base = bus[:, VM] * np.exp(1j * np.deg2rad(bus[:, VA]))

    rng = np.random.default_rng(seed("grid", name))
    size = CHANGE * np.abs(bus[:, [PD, QD]]).mean(axis=0) / inner["baseMVA"]
    changes = size[0] * rng.standard_normal((N_ROWS, len(free))) + 1j * size[1] * rng.standard_normal(
        (N_ROWS, len(free))
    )
    wanted = makeSbus(inner["baseMVA"], bus, inner["gen"])[free] + changes

    by_magnitude, by_angle = (each.toarray()[np.ix_(free, free)] for each in dSbus_dV(admittance, base))
    jacobian = np.block([[by_angle.real, by_magnitude.real], [by_angle.imag, by_magnitude.imag]])
    inverse = np.linalg.inv(jacobian)
    magnitude, angle = (np.tile(part, (N_ROWS, 1)) for part in (np.abs(base), np.angle(base)))
    for _ in range(MAX_ITER):
        voltage = magnitude * np.exp(1j * angle)
        missing = wanted - (voltage * np.conj(voltage @ admittance.toarray().T))[:, free]
        if np.abs(missing).max() < TOL:
            break
        step = np.hstack([missing.real, missing.imag]) @ inverse.T
        angle[:, free] += step[:, : len(free)]
        magnitude[:, free] += step[:, len(free) :]
    else:
        raise RuntimeError(f"load flows of {name} did not converge")
    return standardise(magnitude[:, free]), _links(inner)[np.ix_(free, free)]


def _load(name: str, data: Path) -> dict[str, Any]:
    """Return a case as PYPOWER has it; the one of 33 buses, which it lacks, from its tables."""
    from pypower import api

    if hasattr(api, name):
        return getattr(api, name)()
    bus = pd.read_csv(data / "powergrid" / f"{name}_buses.csv").to_numpy(dtype=float)
    branch = pd.read_csv(data / "powergrid" / f"{name}_branches.csv").to_numpy(dtype=float)
    base_kv, base_mva = 12.66, 100.0  # case33bw.m; its tables hold ohms, kW and kVAr, and the file converts them
    branch[:, [2, 3]] /= base_kv**2 / base_mva
    bus[:, [PD, QD]] /= 1000.0
    generator = np.zeros((1, 21))
    generator[0, [0, 5, 6, 7]] = 1.0, 1.0, base_mva, 1.0
    generator[0, [3, 4, 8]] = 10.0, -10.0, 10.0
    return {"version": "2", "baseMVA": base_mva, "bus": bus, "branch": branch, "gen": generator}


def _links(case: dict[str, Any]) -> NDArray[np.bool_]:
    """Return which buses a line in service connects."""
    places = {int(number): index for index, number in enumerate(case["bus"][:, 0])}
    linked = np.zeros((len(places), len(places)), dtype=bool)
    for branch in case["branch"][case["branch"][:, STATUS] > 0]:
        one, other = places[int(branch[F_BUS])], places[int(branch[T_BUS])]
        linked[one, other] = linked[other, one] = True
    return linked
