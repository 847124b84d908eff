"""The files that fuzzing begins with, honest and hostile.

They are made by code, so that it is plain what is wrong with each, and no bomb lies about.
"""

from functools import cache

from tests.fuzz import targets
from tests.fuzz.hostile import PARTS, triangle_of_one_label


@cache
def corpus(target: str) -> dict[str, tuple[bytes, targets.Seed]]:
    """Return the content of each file by its name, and the honest bundle that it goes with."""
    seeds = {seed.name: seed for seed in targets.seeds()}
    one, triangle = seeds["one"], seeds["bundle-covariance"]
    if target == "archive":
        return {name: (seed.archive, seed) for name, seed in seeds.items()}
    if target == "manifest":
        return {name: (seed.payload, seed) for name, seed in seeds.items()}
    honest = {name: (seed.member, seed) for name, seed in seeds.items()}
    label = triangle_of_one_label(triangle.release.labels)
    return honest | {name: (make(), one) for name, make in PARTS.items()} | {"one label": (label, triangle)}
