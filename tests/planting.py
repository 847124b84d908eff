"""Plants: what puts a fault in the place of something of the product, until a monkeypatch is undone."""

from collections.abc import Callable
from typing import Any

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


def instead_of(name: str, *owners: Any) -> Callable[[Callable[..., Any]], Plant]:
    """Return what makes a plant of a function, which takes the place of that of its owners, and is given it first."""

    def made(faulty: Callable[..., Any]) -> Plant:
        def plant(patch: pytest.MonkeyPatch) -> None:
            honest = getattr(owners[0], name)
            for owner in owners:
                patch.setattr(owner, name, lambda *given, **named: faulty(honest, *given, **named))

        return plant

    return made
