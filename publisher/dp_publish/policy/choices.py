"""The values that options and policies may take, in a module that costs nothing to import: help comes at once."""

from typing import Literal, TypeAlias

STRENGTHS = ("mu", "epsilon", "rho", "sigma")
DEFAULT_SPREAD = 0.14  # a column's assumed standard deviation over the width of its bounds: see `forecast.assumptions`

ReleaseKind: TypeAlias = Literal["rows", "covariance"]
SoundMechanism: TypeAlias = Literal["two-round", "gaussian", "laplace", "wishart-difference", "wishart", "eigenvectors"]
UnsoundMechanism: TypeAlias = Literal["wishart-pure", "output-perturbation"]  # named to be refused for what they are
Mechanism: TypeAlias = Literal["auto", SoundMechanism, UnsoundMechanism]
OF_MOMENTS = ("mechanism", "neighbours", "l2_radius", "scale")  # entries that only a release of second moments has
DERIVED = ("assumed", "find", "like", "sought", "sources")  # entries of a policy that no file gives
