"""What a result comes from: files, signers, digests, versions and settings, and how to cite it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, cast

from dp_bundle import Bundle
from dp_bundle.describe.guessing import describe_guess
from dp_bundle.describe.sentences import describe_guarantee, describe_moments, describe_size, describe_total
from dp_bundle.page.figures import figure_text
from dp_learn.output.page.findings import Findings

_LONGEST, _LONGEST_CITATION = 200, 600  # letters
_SPECIAL = re.compile(r"([\\{}$&#^_%~])")
_SPELLED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def software() -> str:
    """Return the software that made the page, and its version."""
    return f"dpgraph {version('dpgraph')}"


def describe_release(bundle: Bundle) -> list[tuple[str, str]]:
    """Return what is known of one bundle, by labels."""
    release, dataset = bundle.release, bundle.release.dataset
    previous = release.lineage.previous
    said = [
        ("Title", dataset.title),
        ("Description", dataset.description),
        ("Creator", dataset.creator),
        ("License", dataset.license),
        ("Contact", dataset.contact),
        ("URL", dataset.url),
    ]
    return [
        ("File", bundle.path.name),
        ("Dataset", dataset.name),
        *((f"{label}, in the publisher’s words", text) for label, text in said if text),
        ("Release", f"{release.lineage.number}, made {release.lineage.created} with {release.software}"),
        ("Size", describe_size(release)),
        ("Signed by", f"{bundle.signer.name} (as the key is named here), {bundle.signer.key.fingerprint}"),
        ("Manifest, SHA-256", bundle.manifest_sha256),
        *([("Release before it, SHA-256", previous)] if previous else []),
    ]


def describe_promise(bundle: Bundle) -> list[str]:
    """Return the sentences on the guarantee of one bundle, and on its noise where that is on a matrix."""
    release = bundle.release
    moments = [] if release.second_moments is None else describe_moments(release.second_moments)
    words = [] if release.guarantee is None else [describe_guess(release.guarantee, release.columns)]
    return [*words, *describe_guarantee(release), describe_total(release), *moments]


def settings(findings: Findings) -> list[tuple[str, str]]:
    """Return the settings of the estimate, by labels."""
    summary = findings.summary
    facts = [("Estimator", summary["estimator"])]
    if summary["alpha"] is not None:
        chosen = summary.get("alpha_chosen_by")
        by = f", chosen by {chosen}" if chosen else ""
        facts.append(("Penalty, alpha", f"{summary['alpha']:.6g}{by}"))
    labels = {
        "target": "Target",
        "scale": "Scale of the penalty",
        "weights": "Weights of the penalty",
        "penalize_diagonal": "Diagonal penalised",
        "refit": "Refitted without the penalty",
        "penalty_share": "Share of the penalty that the weights keep",
        "fdr": "False discovery rate",
        "solver": "Solver",
        "status": "Outcome",
        "duality_gap": "Duality gap",
        "repair": "Repair of an indefinite matrix",
    }
    facts += [(label, _spell(summary[name])) for name, label in labels.items() if summary.get(name) is not None]  # type: ignore[literal-required]
    return facts


def describe_prediction(findings: Findings) -> list[tuple[str, str]]:
    """Return the numbers of a regression or a discriminant beside its coefficients, by labels."""
    summary = cast(dict[str, Any], findings.summary)
    if summary["estimator"] == "regression":
        r_squared, bound = summary["r_squared"], summary["excess_bound"]
        return [
            ("Intercept", f"{summary['intercept']:.5g}"),
            ("Estimated R²", f"{r_squared:.3f}" if 0.0 <= r_squared <= 1.0 else "not known under this noise"),
            ("Lost to the noise", f"at most {bound:.3g} of mean squared error plus penalty" if bound else "not known"),
        ]
    if summary["estimator"] == "lda":
        shares = (f"{value:g}: {share:.1%}" for value, share in zip(summary["classes"], summary["priors"], strict=True))
        rule = f"{summary['intercept']:+.5g} + the sum of coefficients times columns > 0"
        return [("Classes", ", ".join(shares)), (f"Class {summary['classes'][1]:g} where", rule)]
    return []


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def cite(bundles: Sequence[Bundle]) -> tuple[str, str]:
    """Return how to cite a result, as text and as BibTeX: the data, which releases of it, and the software."""
    texts, entries = [], []
    for bundle in bundles:
        release, dataset = bundle.release, bundle.release.dataset
        title = figure_text(dataset.title or dataset.name, _LONGEST)
        year = release.lineage.created[:4]
        creator = figure_text(dataset.creator or f"Signer {bundle.signer.key.fingerprint[:24]}", _LONGEST)
        digest = bundle.manifest_sha256
        about = f"Release {release.lineage.number}, manifest sha256:{digest}"
        own = f" {figure_text(dataset.citation, _LONGEST_CITATION).rstrip('.')}." if dataset.citation else ""
        texts.append(f"{creator} ({year}). {title}. {about}.{f' {dataset.url}' if dataset.url else ''}{own}")
        fields = {"author": f"{{{_tex(creator)}}}", "title": f"{{{_tex(title)}}}", "year": year, "note": _tex(about)}
        fields |= {"url": dataset.url} if dataset.url else {}
        inner = ",\n".join(f"  {name:<6} = {{{value}}}" for name, value in fields.items())
        entries.append(f"@misc{{dpgraph-{digest[:12]},\n{inner}\n}}")
    texts.append(f"This page was made from {'these releases' if len(bundles) > 1 else 'it'} with {software()}.")
    return "\n".join(texts), "\n\n".join(entries)


def _tex(text: str) -> str:
    return _SPECIAL.sub(lambda found: _SPELLED.get(found[0], f"\\{found[0]}"), text)
