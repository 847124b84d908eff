"""Bad bundles that only a trusted signer can make: payloads and members, soundly signed, that no release has."""

from collections.abc import Callable

from tests.bad_bundles.making import GOLDEN, Case, members, payload, stated
from tests.tamper.archives import Members, members_of

__all__ = ["CASES"]

_MARGINS = "data/margins.parquet"
_COPULA, _TWO = "copula", "two-round"
_ASINH = {"name": "asinh", "center": 12.0, "scale": 1.0}


def _without(name: str) -> Callable[[Members], Members]:
    return lambda found: {each: content for each, content in found.items() if each != name}


def _with_margins(found: Members) -> Members:
    """Add the histograms of another release."""
    return {**found, _MARGINS: members_of(GOLDEN / f"bundle-{_COPULA}.tar")[_MARGINS]}


def _lying(name: str, old: bytes, new: bytes) -> Callable[[Members], Members]:
    def change(found: Members) -> Members:
        assert old in found[name]
        return {**found, name: found[name].replace(old, new)}

    return change


def _renamed(found: Members) -> Members:
    return {name.replace("part-00000", "part-00001"): content for name, content in found.items()}


def _without_data(found: Members) -> Members:
    return {name: content for name, content in found.items() if not name.startswith("data/")}


def _data_first(found: Members) -> Members:
    manifest, *described, part = found
    return {name: found[name] for name in (manifest, part, *described)}


_SPELLED = "not sound|lacks fields, or spells"
_UNSOUND = "the signed manifest is not sound"
_KIND = "not those of a release of kind rows"

CASES = [
    Case(*each)
    for each in [
        ("nested too deeply", "P1", stated({"dataset.remark": [[[[[[1]]]]]]}), _UNSOUND),
        (
            "object with too many entries",
            "P1",
            stated({"dataset.remark": {f"field {number}": 1 for number in range(65)}}),
            _UNSOUND,
        ),
        (
            "more marks than any release",
            "P1",
            payload(b'"title":""', b'"title":"%s"' % (b"," * 700_000)),
            "larger than",
        ),
        ("space between tokens", "P2", payload(b'"n_rows":', b'"n_rows": '), _SPELLED),
        ("key twice", "P2", payload(b'"n_rows":', b'"n_rows":1,"n_rows":'), _SPELLED),
        ("keys in another order", "P2", payload(b'"kind":"rows","lineage"', b'"lineage":{},"lineage"'), _SPELLED),
        ("character escaped for nothing", "P2", payload(b'"unit":"row"', b'"unit":"r\\u006fw"'), _SPELLED),
        ("zero too many", "P2", payload(b'"bounds_mu":0.0', b'"bounds_mu":0.00'), _SPELLED),
        ("exponent for nothing", "P2", payload(b'"bounds_mu":0.0', b'"bounds_mu":0e0'), _SPELLED),
        ("number that is too small", "P2", payload(b'"excepted_delta":0.0', b'"excepted_delta":1e-400'), _SPELLED),
        ("number that is too large", "P2", payload(b'"bounds_mu":0.0', b'"bounds_mu":1e400'), _SPELLED),
        ("no number", "P2", payload(b'"bounds_mu":0.0', b'"bounds_mu":NaN'), _SPELLED),
        ("bytes that are no UTF-8", "P2", payload(b'"title":""', b'"title":"\xff"'), _SPELLED),
        ("unknown version", "P3", stated({"format_version": "99"}), "99"),
        ("earlier version", "P3", stated({"format_version": "7"}), "7"),
        ("type of another version", "P3", payload(b"release/v8", b"release/v7"), _UNSOUND),
        ("field left out", "P4", payload(b'"second_moments":null,', b""), _SPELLED),
        ("unknown field of the release", "P4", stated({"remark": "hello"}), _UNSOUND),
        ("unknown field of the guarantee", "P4", stated({"guarantee.except_for": "Mondays"}), _UNSOUND),
        ("unknown field of the noise", "P4", stated({"columns.0.noise.factor": 2.0}), _UNSOUND),
        ("unknown word", "P4", stated({"columns.0.kind": "os.system"}), _UNSOUND),
        ("asinh in place of scores", "P4", stated({"columns.0.transform": _ASINH}, _COPULA), "'scores'"),
        ("integer for a float", "P4", payload(b'"bounds_mu":0.0', b'"bounds_mu":0'), _SPELLED),
        ("text for a number", "P4", stated({"n_rows": "178"}), _UNSOUND),
        ("number for a list", "P4", stated({"columns": 13}), _UNSOUND),
        ("number beyond all releases", "P4", stated({"lineage.number": 10**9 + 1}), _UNSOUND),
        ("number of 4201 digits", "P4", payload(b'"number":1', b'"number":1' + b"0" * 4200), _UNSOUND),
        ("more rows than can be counted", "P4", stated({"n_rows": 2**53 + 1}), _UNSOUND),
        ("empty name", "P4", stated({"dataset.name": ""}), _UNSOUND),
        ("text with a line separator", "P5", stated({"dataset.title": "a\u2028b"}), _UNSOUND),
        ("text with a control character", "P5", stated({"columns.0.unit": "\x9b"}), _UNSOUND),
        ("override of the writing direction", "P5", stated({"dataset.title": "a\u202eb"}), _UNSOUND),
        ("30 February", "P5", stated({"lineage.created": "2026-02-30T00:00:00Z"}), _UNSOUND),
        ("further field with a capital", "P6", stated({"dataset.Remark": 1}), "is no name of a field"),
        ("further field that is too long", "P6", stated({"dataset.remark": "x" * 10_001}), "10000 characters"),
        ("further field that is too large", "P6", stated({"dataset.remark": 2**53 + 1}), "not every reader"),
        ("member of another kind", "M3", members(lambda found: {**found, "setup.sh": b"true"}, sign=True), _KIND),
        ("data of another kind", "M3", members(lambda found: {**found, "data/secret.bin": b"\0"}, sign=True), _KIND),
        ("part left out", "M3", members(_renamed, sign=True), _KIND),
        ("histograms left out", "M3", members(_without(_MARGINS), sign=True, base=_COPULA), "kind covariance"),
        ("histograms that nothing states", "M3", members(_with_margins, sign=True, base=_TWO), "kind covariance"),
        ("no data", "M3", members(_without_data, sign=True), _KIND),
        ("data before the descriptions", "M3", members(_data_first, sign=True), _KIND),
        (
            "README that says more",
            "M5",
            members(_lying("README.md", b"rho = ", b"rho = 0."), sign=True),
            "says something else",
        ),
        (
            "data package that says something else",
            "M5",
            members(_lying("datapackage.json", b'"name"', b'"nome"'), sign=True),
            "says something else",
        ),
        (
            "Croissant file that says something else",
            "M5",
            members(_lying("croissant.json", b"wine", b"vine"), sign=True),
            "says something else",
        ),
    ]
]
