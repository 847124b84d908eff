"""Many people's commands at once on one state folder: first releases without a key, verifiers, and those who learn."""

import json
import subprocess
from pathlib import Path

from tests.accidents.setting import Setting, require_result

__all__ = ["run_crowd"]


def run_crowd(folder: Path, *, publishers: int = 8, verifiers: int = 24, learners: int = 24) -> None:
    """Run so many of each at once, and check that each ends with 0 and that nothing is lost.

    Raises
    ------
    AssertionError
        A command failed, or a release, a key, a sighting or a result is missing.
    """
    setting = Setting.make(folder, n_rows=500)
    bundles = [f"{index}.tar" for index in range(publishers)]
    _require_success([setting.publish(out) for out in bundles])
    numbers = set(range(1, publishers + 1))
    assert setting.booked() == numbers
    assert sorted(setting.published().values()) == sorted(numbers)
    assert [path.name for path in (setting.home / "keys").glob("*.key")] == ["publisher.key"]
    assert len(list((setting.home / "trusted").glob("????*.json"))) == 1 + (setting.home / "trusted/seen.json").exists()

    turns = [bundles[index % publishers] for index in range(max(verifiers, learners))]
    _require_success([setting.start("dp-bundle", "verify", "--allow-older", name) for name in turns[:verifiers]])
    seen = json.loads((setting.home / "trusted" / "seen.json").read_text())
    assert any({int(number) for number in entry["manifests"]} >= numbers for entry in seen.values()), seen

    crowd = [
        setting.start("dp-learn", "--allow-older", name, "--out", f"graph-{index}")
        for index, name in enumerate(turns[:learners])
    ]
    _require_success(crowd)
    for index in range(learners):
        require_result(folder / f"graph-{index}")


def _require_success(crowd: list[subprocess.Popen[bytes]]) -> None:
    said = [process.communicate()[1].decode() for process in crowd]
    codes = [process.returncode for process in crowd]
    assert not any(codes), [(code, words) for code, words in zip(codes, said, strict=True) if code]
