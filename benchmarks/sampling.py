"""Speed of the samplers against numpy's `Generator.normal` and OpenDP's vector mechanism, on one thread.

    python benchmarks/sampling.py

Draws 2^22 values per measurement (2^15 from OpenDP, which is far slower; rates are per value), and prints the median
rate of 9 measurements in millions of values a second, keystream included, with its ratios; then the time to make the
tables that a sampler needs when it first meets a sigma.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.probability_tables import block_table, discrete_table, rounded_table

N_VALUES = 1 << 22
N_VALUES_OPENDP = 1 << 15
N_REPETITIONS = 9
SIGMAS = [0.3, 1.0, 30.0, 256.0, 300.0, 511.0, 1000.0, 4096.0, 1e6, 1e9]


def median_seconds(
    draw: Callable[[], object], repetitions: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the median time of a call, after a first call."""
    draw()
    times = []
    for _ in range(repetitions):
        start = clock()
        draw()
        times.append(clock() - start)
    return statistics.median(times)


def rate(draw: Callable[[], object], n_values: int) -> float:
    """Return the median rate, in values per second."""
    return n_values / median_seconds(draw, N_REPETITIONS)


def opendp_mechanism(sigma: float) -> Callable[[], object] | None:
    """Return a call that adds discrete Gaussian noise to a vector with OpenDP, if it is installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space: Any = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, scale=sigma)
    zeros = [0] * N_VALUES_OPENDP
    return lambda: mechanism(zeros)


def main() -> None:
    """Print the rates, then the times of the tables."""
    rng = np.random.default_rng()
    print(
        f"{'sigma':>8} {'sampler':10} {'ours':>8} {'numpy':>8} {'OpenDP':>8} {'/ numpy':>8} {'/ OpenDP':>9}   (10^6/s)"
    )
    for sigma in SIGMAS:
        mechanism = opendp_mechanism(sigma)
        opendp = rate(mechanism, N_VALUES_OPENDP) if mechanism else None
        for name, sample in (("rounded", sample_rounded_gaussian), ("discrete", sample_discrete_gaussian)):
            numpy = rate(lambda sigma=sigma: rng.normal(0.0, sigma, N_VALUES), N_VALUES)
            ours = rate(lambda sample=sample, sigma=sigma: sample(sigma, N_VALUES), N_VALUES)
            theirs = f"{opendp / 1e6:8.3f}" if opendp else "       -"
            ratio = f"{ours / opendp:9.0f}" if opendp else "        -"
            print(
                f"{sigma:8g} {name:10} {ours / 1e6:8.1f} {numpy / 1e6:8.1f} {theirs} {ours / numpy:8.2f} {ratio}",
                flush=True,
            )
    if opendp_mechanism(1.0) is None:
        print("OpenDP is not installed, so it was not measured: pip install opendp")
    print()
    for make_table in (rounded_table, discrete_table, block_table):
        for sigma in (1.0, 16.0, 256.0, 511.0):
            make_table.cache_clear()
            start = time.perf_counter()
            make_table(sigma)
            print(f"{make_table.__name__:15} sigma = {sigma:5g}: {(time.perf_counter() - start) * 1e3:6.2f} ms")


if __name__ == "__main__":
    main()
