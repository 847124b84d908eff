"""What the pages that draw start from: sphinx-gallery calls `begin_page` before each script of docs/explanation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

STYLE = Path(__file__).with_name("explanation") / "figures.mplstyle"
STATE = os.environ.get("DPGRAPH_HOME")


def begin_page(_conf: dict[str, Any], _script: str) -> None:
    """Set the figures' style, and give up the folder of keys that the last script made for itself."""
    plt.rcdefaults()
    plt.style.use(STYLE)
    if STATE is not None:
        os.environ["DPGRAPH_HOME"] = STATE
