"""The policy's file: its place beside the data, and its reading; and the policy that an earlier release decides.

All that a release says of its columns is public, and was paid for. Kinds, levels, gaps and bounds are in its manifest.
So are the centers of its columns in the first of two rounds, where gaps stand. So are, but for a factor, their
deviations, which are units of the second. Of columns that have histograms, numbers without bounds have the places
around which their cells lie. Bounds cut cells off, so that scores within bounds have no place that is told: it is
searched again.
"""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dp_bundle.base.errors import PolicyError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files.new_files import read_regular
from dp_bundle.files.places import Place, RemotePath
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import MAX_COLUMNS
from dp_publish.data.dialect import unpacked_name
from dp_publish.data.kinds import KINDS
from dp_publish.policy.choices import DERIVED, OF_MOMENTS, STRENGTHS
from dp_publish.policy.mistakes import describe_mistake
from dp_publish.policy.model import Policy

_DEFAULT_MU = 1.0
_SECTION_OF_COLUMN = re.compile(rb"^[ \t]*\[[ \t]*columns[ \t]*\.", re.MULTILINE)
_MOST = 2**23  # bytes of a policy; 20,000 columns with all that can be said of them take fewer
_UNITS = 4.0  # of the second round, over sqrt(p): exact without correlations, and else a few percent too many
_SCALES = 403.4  # 2 sinh(6), between the outermost ends of a histogram's cells, or up to a third more


def policy_path(data: Place) -> Path:
    """Return where the policy of a data file or folder is expected: `data.policy.toml` beside it, or here."""
    if isinstance(data, RemotePath):
        return Path(f"{Path(unpacked_name(Path(data.name))).stem}.policy.toml")
    place = data.resolve() if data.name in ("", "..") else data  # "." is a folder that has a name, too
    name = Path(unpacked_name(place)).stem if place.is_file() else place.name
    return place.parent / f"{name}.policy.toml"


def used_policy(data: Place, given: Path | None) -> Path | None:
    """Return the policy that was given, or else the data's own if there is one."""
    own = policy_path(data)
    return given or (own if own.is_file() else None)


def load_policy(path: Path | None, default_name: str, overrides: dict[str, Any]) -> Policy:
    """Read a policy file, if there is one, and let options override its privacy section.

    Parameters
    ----------
    path : Path or None
        The TOML file; None for an empty policy. A policy without a strength protects at mu = 1.
    default_name : str
        The dataset's name if the file gives none.
    overrides : dict
        Entries of the privacy section that replace the file's, and `header`, which replaces that of the table section.
        A strength among them replaces the file's strength. `like` is the path or the URI of an earlier release, which
        decides what the file does not (`policy.like`).

    Raises
    ------
    PolicyError
        The file is unreadable, is not TOML, or says something that is not allowed.
    BundleError
        The earlier release, or its signer, cannot be trusted.
    """
    document: dict[str, Any] = {}
    if path is not None:
        document = _read(path)
    where = str(path) if path is not None else "given on the command line"
    return _parse(document, where, default_name, overrides)


def parse_policy(text: str, where: str, default_name: str) -> Policy:
    """Return the policy that a text is, as `load_policy` reads one from a file; `where` names it in errors.

    Raises
    ------
    PolicyError
        As there; its cause is pydantic's `ValidationError` where entries are not as they must be.
    """
    return _parse(_parse_toml(text.encode(), where), where, default_name, {})


def _read(path: Path) -> dict[str, Any]:
    """Return a policy file's TOML, for no more columns than a release may have."""
    try:
        content = read_regular(path, _MOST)
    except OSError as error:
        raise PolicyError(f"the policy {path} cannot be read: {error.strerror}") from error
    return _parse_toml(content, str(path))


def _parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """Return what a policy's text says, for no more columns than a release may have."""
    _require_columns(where, len(_SECTION_OF_COLUMN.findall(content)))  # before objects are made of all of them
    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
        json.dumps(document, default=str)  # refuses what nobody could be told: 0x and thousands of digits
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number or a nesting beyond all sense
        raise PolicyError(f"the policy {where} is not valid TOML: {error}") from error
    columns = document.get("columns")
    _require_columns(where, len(columns) if isinstance(columns, dict) else 0)
    return document


def _require_columns(where: str, n_columns: int) -> None:
    if n_columns <= MAX_COLUMNS:
        return
    raise PolicyError(
        f"the policy {where} has sections for more than {MAX_COLUMNS:,} columns, which is more than a release may "
        "have: remove those of columns that the table does not have, or that are not published"
    )


def _parse(document: dict[str, Any], where: str, default_name: str, overrides: dict[str, Any]) -> Policy:
    if derived := {*DERIVED} & {*document}:
        raise PolicyError(f"the policy {where} has an unknown entry: {min(derived)}")
    options = {name: value for name, value in overrides.items() if value is not None and name != "like"}
    if overrides.get("like"):
        document = _over(decisions_of(overrides["like"]), document)
    privacy = document.get("privacy", {})
    if not isinstance(privacy, dict) or not isinstance(document.get("dataset", {}), dict):
        raise PolicyError(f"the policy {where} must have [dataset] and [privacy] as tables")

    # An option takes the place of what the file says, and of what in the file goes with that.
    replaced = {*STRENGTHS, "delta"} if {*STRENGTHS} & {*options} else set[str]()
    if options.get("release") == "rows":
        replaced |= {*OF_MOMENTS}
    elif "scale" in options and privacy.get("release") == "rows":
        replaced |= {"release"}
    if "unit" in options:
        options["unit"] = _unit_of(options["unit"], options.pop("max_rows", None))
        document = _over(document, _without_entity(document, privacy.get("unit")))
    header = {"header": options.pop("header")} if "header" in options else {}
    table = document.get("table", {})
    privacy = {name: value for name, value in privacy.items() if name not in replaced} | options
    assumed = not {*STRENGTHS} & {*privacy}
    said = {**document, "privacy": {"mu": _DEFAULT_MU, **privacy} if assumed else privacy, "assumed": assumed}
    said = _over({"dataset": {"name": default_name}}, said)

    try:
        return Policy.model_validate({**said, "table": {**table, **header} if isinstance(table, dict) else table})
    except ValidationError as error:
        mistake = describe_mistake(error, options)
        if mistake.startswith("--"):
            raise PolicyError(mistake) from error
        where = f"{where} with this command's options" if (options or header) and document else where
        raise PolicyError(f"the policy {where}, at {mistake}") from error


def _unit_of(unit: str, max_rows: int | None) -> str | dict[str, Any]:
    """Return the unit of privacy that was typed: a word, or a column, of whose values each has so many rows at most."""
    if unit in ("cell", "row"):
        if max_rows is not None:
            raise PolicyError(f"--max-rows is for --unit COLUMN, not {unit}", "privacy.unit")
        return unit
    if max_rows is None:
        raise PolicyError(
            f"--unit {unit} needs --max-rows, such as 3 for three yearly visits: how many rows of one {unit!r} are "
            "published at most; say it by how the table came about, and not by counting",
            "privacy.unit.max_rows",
        )
    return {"entity": unit, "max_rows": max_rows}


def _over(below: Any, own: Any) -> Any:
    """Return entries over others, and those of tables over those of the same tables."""
    if not (isinstance(below, dict) and isinstance(own, dict)):
        return own
    return {**below, **{name: _over(below.get(name), value) for name, value in own.items()}}


def _without_entity(document: dict[str, Any], unit: Any) -> dict[str, Any]:
    """Return what drops the column that names the file's own entity, which would be published under another unit."""
    columns, entity = document.get("columns", {}), unit.get("entity") if isinstance(unit, dict) else None
    if not isinstance(columns, dict) or not isinstance(entity, str) or not isinstance(columns.get(entity, {}), dict):
        return {}
    return {"columns": {entity: {"drop": True}}}


def decisions_of(place: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the policy that an earlier release decides, as a file would give it, without a strength; and its name.

    All columns that it does not publish are dropped.

    Parameters
    ----------
    place : str, Path or RemotePath
        The bundle, a tar or a folder, or its URI.

    Raises
    ------
    BundleError
        The bundle, or its signer, cannot be trusted.
    """
    with open_bundle(place, allow_older=True) as bundle:
        release, promise = bundle.release, bundle.release.guarantee
        margins = bundle.margins() if release.margins else ()
    privacy: dict[str, Any] = {
        "unit": {"entity": promise.entity, "max_rows": promise.max_rows} if promise.entity else promise.unit,
        "release": release.kind,
    }
    if moments := release.second_moments:
        privacy |= {"mechanism": moments.mechanism, "neighbours": promise.neighbours}
        if moments.first_round:
            privacy["scale"] = list(source_names([each for each in release.columns if each.transform])) or "raw"

    # of several columns that are published for one, the first says what a policy does
    columns: dict[str, Any] = {"*": {"drop": True}}
    for column in release.columns:
        said = column.model_dump(include={"kind", "unit", "description", "bounds", "missing"})
        said |= {"drop": False, "max_change": column.max_change and int(column.max_change)}
        if column.standards and column.has_values:
            first, second = column.standards
            scale = second.scale / (_UNITS * len(release.columns) ** 0.5)
            said |= {"center": first.center, "scale": min(scale, column.width)}
        columns.setdefault(column.source_name, said)

    for margin in margins:
        said, edges = columns[margin.name], margin.edges
        if len(edges) > 1 and said["bounds"] is None:
            said |= {"center": np.median(edges), "scale": np.ptp(edges) / _SCALES}
        if (edges % 1 == 0.5).all():  # as are none, those of levels, whose sources say what they are
            said["kind"] = "integer"
    for source in release.sources:
        said, kind = columns[source.name], KINDS[source.kind]
        if kind.read_from:
            said["kind"] = kind.said_as or kind.name
        if source.levels:
            levels = [level for level in source.levels if level != source.gaps or level == source.other]
            said |= {"bounds": None, kind.levels or "": levels, "other": source.other}
        if source.gaps:
            said["missing"] = "other" if source.gaps == source.other else "category"
    return {
        "like": f"release {release.lineage.number} of {release.dataset.name!r}",
        "privacy": privacy,
        "columns": columns,
    }
