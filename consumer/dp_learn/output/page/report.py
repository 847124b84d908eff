"""The page of a result, put together.

What a result comes from: files, signers, digests, versions and settings, and how to cite it.
"""

from pathlib import Path
from typing import Any

from dp_bundle import Bundle
from dp_bundle.describe.sentences import (
    describe_guarantee,
    describe_guess,
    describe_moments,
    describe_size,
    describe_total,
)
from dp_bundle.page.document import Page, render_page
from dp_bundle.page.tables import PageTable
from dp_bundle.portals.histograms import draw_margins
from dp_learn.output.folder import Result
from dp_learn.output.messages import describe_notes
from dp_learn.output.methods import SOFTWARE, describe_methods
from dp_learn.output.page import curves
from dp_learn.output.page.curves import draw_heat_maps, find_heat_maps, heat_map_data
from dp_learn.output.page.links import (
    columns_table,
    edges_tables,
    find_forest,
    loadings_table,
    nodes_table,
    plain_table,
)
from dp_learn.output.page.network import draw_network, network_data
from dp_learn.output.page.plain_words import key_figures, summarize_plainly
from dp_learn.output.summary import GraphResult


def describe_release(bundle: Bundle) -> list[tuple[str, str]]:
    """Return what is known of one bundle, by labels."""
    release, dataset = bundle.release, bundle.release.dataset
    previous = release.lineage.previous
    words = ("title", "description", "creator", "license", "contact")
    said = {name.capitalize(): getattr(dataset, name) for name in words} | {"URL": dataset.url}
    return [
        ("File", bundle.path.name),
        ("Dataset", dataset.name),
        *((f"{label}, in the publisher’s words", text) for label, text in said.items() if text),
        ("Release", f"{release.lineage.number}, made {release.lineage.created} with {release.software}"),
        ("Size", describe_size(release)),
        ("Signed by", f"{bundle.signer.name} (as the key is named here), {bundle.signer.key.fingerprint}"),
        ("Manifest, SHA-256", bundle.manifest_sha256),
        *([("Release before it, SHA-256", previous)] if previous else []),
    ]


def describe_promise(bundle: Bundle) -> list[str]:
    """Return the sentences on the guarantee of one bundle, and on its noise where that is on a matrix."""
    release = bundle.release
    moments = describe_moments(release.second_moments, release.columns)
    return [
        describe_guess(release.guarantee, release.columns),
        *describe_guarantee(release),
        describe_total(release),
        *moments,
    ]


def settings(found: GraphResult) -> list[tuple[str, str]]:
    """Return the settings of the estimate, by labels."""
    summary = found.summary
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
        "penalty_share": "Share of the penalty that the fit keeps",
        "edge_weights": "Weights of links",
        "fdr": "False discovery rate",
        "solver": "Solver",
        "status": "Outcome",
        "duality_gap": "Duality gap",
        "repair": "Repair of an indefinite matrix",
    }
    facts += [(label, _spell(summary[name])) for name, label in labels.items() if summary.get(name) is not None]
    return facts


def describe_prediction(found: GraphResult) -> list[tuple[str, str]]:
    """Return the numbers of a regression or a discriminant beside its coefficients, by labels."""
    summary = found.summary
    if summary["estimator"] == "regression":
        r_squared, bound = summary["r_squared"], summary["excess_bound"]
        return [
            ("Intercept", f"{summary['intercept']:.5g}"),
            ("Estimated R²", f"{r_squared:.3f}" if 0.0 <= r_squared <= 1.0 else "not known under this noise"),
            (
                "Lost to the noise",
                f"at most {bound:.3g} of mean squared error plus penalty" if bound is not None else "not known",
            ),
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


def origin(result: Result, command: str) -> dict[str, Any]:
    """Return what every page says of its own origin: the command, the software, the methods, and all guarantees."""
    promises = [(bundle, describe_promise(bundle)) for bundle in result.bundles]
    return {"command": command, "software": SOFTWARE, "methods": describe_methods(result), "promises": promises}


TEMPLATES = Path(__file__).with_name("templates")
_SCRIPTS = {"graph": "graph.js", "heat": "heat_maps.js"}
_CAPTIONS = {
    "edges.csv": "The pairs of columns whose correlation exceeds the threshold, surest first.",
    "coefficients.csv": "The coefficient of every column; also without the penalty, with its 95 % interval, noise "
    "included, where errors are known.",
    "means.csv": "The mean of every column in each class.",
}


def make_report(found: GraphResult, command: str) -> str:
    """Return the page of a result as one HTML document that needs no network, the same for the same result.

    Parameters
    ----------
    found : GraphResult
        Of any estimator.
    command : str
        The command that gives the same result, with the names of files but not where they are.
    """
    network, maps, seen = found.network, find_heat_maps(found), curves.find_visibility(found)
    graph = network if network is not None and network.n_edges else None
    figures = {
        "graph": [] if graph is None else [draw_network(graph)],
        "heat": [] if maps is None else draw_heat_maps(maps),
        "alpha": curves.draw_paths(found),
        "visible": [] if seen is None else [curves.draw_visibility(seen)],
    }
    names = [bundle.release.dataset.title or bundle.release.dataset.name for bundle in found.bundles]
    values: dict[str, Any] = {
        "names": list(dict.fromkeys(names)),
        "summary": found.summary,
        "sentences": summarize_plainly(found, network),
        "notes": describe_notes(found),
        "key_figures": key_figures(found, network),
        "network": network,
        "figures": figures,
        "tables": _tables(found),
        "nodes": nodes_table(found),
        "columns": columns_table(found, network),
        "maps": maps,
        "alpha": curves.explain_alpha(found),
        "visible": [] if seen is None else curves.describe_visibility(seen),
        "visible_table": None if seen is None else curves.visibility_table(seen),
        "margins": draw_margins(found.histograms, found.bundles[0].release),
        "releases": [(bundle, describe_release(bundle)) for bundle in found.bundles],
        "forest": None if found.graph is None else find_forest(found.graph, found.summary["at_least"]),
        "prediction": describe_prediction(found),
        "settings": settings(found),
        **origin(found, command),
    }
    data = {} if graph is None else {"graph": network_data(graph, found.summary["noise_share_of_variance"])}
    data |= {} if maps is None else {"heat": heat_map_data(maps)}
    title = f"{', '.join(values['names'])}: {found.summary['estimator']}"
    scripts = [script for name, script in _SCRIPTS.items() if figures[name]]
    drawn = [figure for group in figures.values() for figure in group]
    return render_page(Page(TEMPLATES, "report.html", title, values, drawn, scripts, data))


def _tables(found: GraphResult) -> list[PageTable]:
    if found.graph is not None:
        return edges_tables(found.graph, found.summary["at_least"]) + loadings_table(found.graph)
    return [
        plain_table(f"table-{place}", _CAPTIONS[file], table, file)
        for place, (file, table) in enumerate(found.tables.items())
        if file in _CAPTIONS and len(next(iter(table.values())))
    ]
