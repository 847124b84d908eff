"""Every covariance mechanism by its name: `policy.SoundMechanism` lists them, each has the file of its name here."""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.unsound import refuse_unsound
from dp_publish.policy.choices import SoundMechanism


def mechanism_named(name: str) -> type[Mechanism] | None:
    """Return the class of a mechanism; None for "auto", where it is still to be chosen.

    Raises
    ------
    PrivacyError
        It is known to be not private.
    """
    refuse_unsound(name)
    if name == "auto":
        return None
    module = import_module(f"dp_publish.covariance.mechanisms.{name.replace('-', '_')}")
    kind: type[Mechanism] = module.MECHANISM
    return kind


def all_mechanisms() -> list[type[Mechanism]]:
    """Return all that may be used."""
    return [kind for kind in map(mechanism_named, get_args(SoundMechanism)) if kind is not None]
