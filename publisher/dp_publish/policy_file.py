"""The policy's file: where it lies, how it is read, and what a new one says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dp_bundle.errors import PolicyError
from dp_publish.policy import STRENGTHS, Policy
from dp_publish.table import ColumnType

__all__ = ["load_policy", "policy_path", "policy_template"]

_DEFAULT_MU = 1.0


def policy_path(data: Path) -> Path:
    """Return where the policy of a data file or folder is expected: `data.policy.toml` beside it."""
    return data.with_name(f"{data.stem if data.is_file() else data.name}.policy.toml")


def load_policy(path: Path | None, default_name: str, overrides: dict[str, Any]) -> Policy:
    """Read a policy file, if there is one, and let options override its privacy section.

    Parameters
    ----------
    path : Path or None
        The TOML file; None for an empty policy. A policy without a strength protects at mu = 1.
    default_name : str
        The dataset's name if the file gives none.
    overrides : dict
        Entries of the privacy section that replace the file's. A strength among them replaces the file's strength.

    Raises
    ------
    PolicyError
        The file is unreadable, is not TOML, or says something that is not allowed.
    """
    document: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise PolicyError(f"the policy {path} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PolicyError(f"the policy {path} is not valid TOML: {error}") from error
    where = str(path) if path is not None else "given on the command line"
    return _parse(document, where, default_name, overrides)


def policy_template(source: str, default_name: str, types: dict[str, ColumnType]) -> str:
    """Return a commented policy for a table, made from its column names and types alone.

    Parameters
    ----------
    source : str
        The data's name, for the heading.
    default_name : str
        The dataset's name.
    types : dict
        Each column's name and declared type, in order.
    """
    lines = [
        f"# What dp-publish may do with {_quoted(source)}.",
        "# Fill in the bounds. A guarantee rests on them, so take them from public knowledge (a scale's end points,",
        "# a code book, physics), never from the data; values outside are clipped.",
        "",
        "[dataset]",
        f"name = {_quoted(default_name)}   # the account that releases are charged to",
        'title = ""',
        'description = ""',
        'creator = ""           # who made the data',
        'license = ""           # as an SPDX identifier, if it has one',
        'contact = ""',
        'url = ""               # where people read about the data',
        'citation = ""          # how the data should be cited',
        "",
        "[privacy]",
        'unit = "row"   # what one person may change: a whole "row", only one "cell", or all rows of an entity:',
        '# unit = { entity = "customer_id", max_rows = 10 }',
        "mu = 1.0       # or: epsilon = 1.0 and delta = 1e-6; rho = 0.5; sigma = 2.0; snr_db = 20",
        '# release = "covariance"   # second moments instead of rows: far more accurate at the same strength',
        "# budget_mu = 3.0       # what all releases of this dataset may cost together; it stays on the books",
        "# bounds_share = 0.1    # the part of rho that finds, privately, the bounds that you leave out",
    ]
    for name, kind in types.items():
        lines += ["", f"[columns.{_quoted(name)}]"]
        if kind is ColumnType.OTHER:
            lines.append("# not numeric: it is never published")
            lines.append("drop = true")
            continue
        declared = {ColumnType.INTEGER: '"integer"', ColumnType.CONTINUOUS: '"continuous"'}.get(kind)
        if declared is None:
            lines.append('kind = "continuous"   # or "integer"; a text file does not say. Not numeric: drop = true')
        else:
            lines.append(f"kind = {declared}")
        lines += [
            "# bounds = [low, high]",
            "# spread = ...   # expected standard deviation over (high - low), for forecasts alone",
            'unit = ""',
            'description = ""',
            'missing = "refuse"   # or "midpoint", or "drop" to leave out rows without a value',
            "# drop = true",
        ]
    return "\n".join(lines) + "\n"


def _parse(document: dict[str, Any], where: str, default_name: str, overrides: dict[str, Any]) -> Policy:
    privacy = document.get("privacy", {})
    if not isinstance(privacy, dict) or not isinstance(document.get("dataset", {}), dict):
        raise PolicyError(f"the policy {where} must have [dataset] and [privacy] as tables")
    if "assumed" in document:
        raise PolicyError(f"the policy {where} has an unknown entry: assumed")
    if any(overrides.get(name) is not None for name in STRENGTHS):
        privacy = {name: value for name, value in privacy.items() if name not in (*STRENGTHS, "delta")}
    if overrides.get("release") == "rows":
        privacy = {name: value for name, value in privacy.items() if name not in ("mechanism", "neighbours")}
    options = {name: value for name, value in overrides.items() if value is not None}
    privacy = {**privacy, **options}
    assumed = not any(name in privacy for name in STRENGTHS)
    if assumed:
        privacy["mu"] = _DEFAULT_MU
    dataset = {"name": default_name, **document.get("dataset", {})}
    try:
        return Policy.model_validate({**document, "dataset": dataset, "privacy": privacy, "assumed": assumed})
    except ValidationError as error:
        first = max(error.errors(), key=lambda found: len(found["loc"]))  # of a union, the branch that fits best
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        option = str(first["loc"][-1]) if first["loc"][:1] == ("privacy",) and len(first["loc"]) == 2 else ""
        if option in options:
            raise PolicyError(f"--{option.replace('_', '-')} {options[option]}: {message}") from error
        where = f"{where} with this command's options" if options and document else where
        raise PolicyError(f"the policy {where}, at {place or 'its top level'}: {message}") from error


def _quoted(text: str) -> str:
    """Return a TOML basic string, which is a JSON string but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
