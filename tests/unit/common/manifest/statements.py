"""Sound statements, made up or of stored bundles, and others that differ from them in a few entries."""

import contextlib
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from tests.fuzz.bombs import spell

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.manifest.noise import discrete_laplace_variance, mu_implied_by_epsilon
from dp_bundle.manifest.release import Statement
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, verify_envelope

GOLDEN = Path(__file__).parents[3] / "golden"


def replaced(document: dict[str, Any], *changes: tuple[str, Any]) -> dict[str, Any]:
    """Return the document with the entries at these dotted places replaced, by values or by functions of them."""
    for place, value in changes:
        *folders, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        inner: Any = document
        for folder in folders:
            inner = inner[folder]
        inner[last] = value(inner[last]) if callable(value) else value
    return document


def respell(document: dict[str, Any]) -> bytes:
    """Return a statement in its one spelling: of its numbers too, unless it is not sound."""
    with contextlib.suppress(ValidationError, ArithmeticError):
        statement = Statement.model_validate_json(json.dumps(document))
        document = statement.model_dump(mode="json", by_alias=True)
    return spell(document)


@cache
def payload(name: str) -> bytes:
    """Return the signed manifest of a stored bundle."""
    with open_bundle(GOLDEN / name, UnsafeTrustAnyone()) as bundle, bundle.open(MANIFEST_NAME) as manifest:
        return verify_envelope(Envelope.from_bytes(manifest.read()))


def read(document: dict[str, Any]) -> Statement:
    """Read a statement from its bytes."""
    return Statement.from_bytes(respell(document))


Changes = dict[str, Any]
P, G, T, M, C = (
    "predicate",
    "predicate.guarantee",
    "predicate.cumulative",
    "predicate.second_moments",
    "predicate.columns.0",
)
ROUND, FOURTH = f"{M}.first_round", f"{M}.fourth_moment"
ENTITY = {
    f"{G}.unit": "entity",
    f"{G}.entity": "who",
    f"{G}.max_rows": 2,
    f"{G}.public": lambda public: [*public, "which rows belong together"],
    f"{T}.unit": "entity:who",
    f"{T}.other_units_rho": {"cell": 1e9, "row": 1e9},
    f"{T}.mu": 1e9,
    f"{T}.rho": 1e9,
}
OF_ROWS = ENTITY | {f"{T}.mu": None, f"{G}.epsilon_delta": []}


def times(factor: float) -> Callable[[float], float]:
    """Return a change of a number by a factor."""
    return lambda number: number * factor


def weaker(factor: float) -> Changes:
    """Return the changes by which a guarantee by mu promises so many times as much."""
    return {f"{G}.mu": times(factor), f"{G}.rho": times(factor**2 * (1 + 1e-12)), f"{G}.epsilon_delta": []}


def pure(epsilon: float) -> Changes:
    """Return the changes by which a guarantee is by this epsilon."""
    mu = mu_implied_by_epsilon(epsilon)
    numbers = {f"{G}.epsilon": epsilon, f"{G}.mu": mu, f"{G}.rho": max(mu, epsilon) ** 2 / 2}
    return {**numbers, f"{G}.epsilon_delta": [], f"{T}.mu": 1e9, f"{T}.rho": 1e9, f"{T}.other_units_rho": {"cell": 1e9}}


def noise(distribution: str, variances: tuple[float, float], bias: float = 0.0, **parameters: float) -> Changes:
    """Return the changes by which a matrix has this noise, on a grid of 1/1024."""
    stated = {"mechanism": distribution.removeprefix("discrete-"), "distribution": distribution, "bias": bias}
    stated |= {"granularity": 2.0**-10, "parameters": parameters}
    stated |= {"diagonal_variance": variances[0], "off_diagonal_variance": variances[1]}
    return {f"{M}.{name}": value for name, value in stated.items()}


def wishart(degrees: float, scale: float, *, matrices: int = 1) -> Changes:
    """Return the changes by which a matrix has noise of one Wishart matrix, or of two."""
    beside, rounding = matrices * degrees * scale**2, 2.0**-20 / 12
    name, bias = ("wishart", degrees * scale) if matrices == 1 else ("wishart-difference", 0.0)
    variances = (2 * beside + rounding, beside + rounding)
    return noise(name, variances, bias, degrees_of_freedom=degrees, scale=scale)


_DIFFERENCE = json.loads(payload("bundle-wishart-difference.tar"))
RADIUS, CONSTANT = (_DIFFERENCE["predicate"]["second_moments"][name] for name in ("radius", "constant"))
L1 = RADIUS**2 * 2 + CONSTANT * RADIUS * math.sqrt(3)  # by which a row at a corner moves three columns
LAPLACE = noise("discrete-laplace", (2.0**-20 * discrete_laplace_variance(L1 * 2**10),) * 2, scale=L1)
LAPLACE |= {**pure(1.0), f"{G}.excepted_delta": 0.0}
NUCLEAR = 2 * (RADIUS**2 + CONSTANT**2)
OF_TWO = wishart(5.0, NUCLEAR / 2, matrices=2) | pure(1.0)
OF_ONE = wishart(60.0, 4.0) | pure(1.0) | {f"{G}.excepted_delta": 0.1, f"{T}.excepted_delta": 0.1}


def stated(kind: str, changes: Changes) -> dict[str, Any]:
    """Return the manifest of a stored bundle with these entries changed."""
    return replaced(json.loads(payload(f"bundle-{kind}.tar")), *changes.items())
