"""The methods of a result as a paragraph for a paper, with references and BibTeX: one text for page, file and Python.

The templates have the sentences, each true of the result at hand.
"""

import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from dp_bundle import Bundle
from dp_bundle.base.quoting import quote_name
from dp_bundle.describe import sentences
from dp_bundle.manifest.dataset import WEB
from dp_bundle.page.document import fill_template
from dp_bundle.page.tables import figure_text
from dp_learn.output.folder import Result

SOFTWARE = f"dpgraph {version('dpgraph')}"
TEXTS = Path(__file__).with_name("templates")
_LONGEST, _LONGEST_CITATION = 200, 600  # letters
_SPECIAL = re.compile(r"([\\{}$&#^_%~])")
_SPELLED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


@dataclass(frozen=True)
class Methods:
    """The methods of a result.

    Attributes
    ----------
    sentences : list of str
        In order.
    references : list of str
        What they cite, with DOIs.
    data : str
        How the data and the software are cited.
    bibtex : str
        The same as BibTeX.
    """

    sentences: list[str]
    references: list[str]
    data: str
    bibtex: str

    @property
    def text(self) -> str:
        """The paragraph, what it cites, and BibTeX, one below the other."""
        return "\n\n".join([" ".join(self.sentences), "\n".join(self.references), self.data, self.bibtex]) + "\n"


def describe_methods(result: Result) -> Methods:
    """Return the methods of a result: the data and their guarantee, the estimate, its rule, intervals, and software."""
    values = {
        "result": result,
        "kind": type(result).__name__,
        "summary": result.summary,
        "releases": [*zip(result.bundles, result.summary["bundles"], strict=True)],
        "cited": [_cite(bundle) for bundle in result.bundles],
        "say": sentences,
        "quote_name": quote_name,
        "tex": lambda text: _SPECIAL.sub(lambda found: _SPELLED.get(found[0], f"\\{found[0]}"), text),
        "software": SOFTWARE,
    }
    text, data, bibtex = (
        fill_template(TEXTS, name, values).strip() for name in ("methods.txt", "citation.txt", "citation.bib")
    )
    references = (TEXTS / "references.txt").read_text(encoding="utf-8").splitlines()
    cited = [each for each in references if each.partition(". ")[0] in text]
    return Methods([*filter(None, dict.fromkeys(text.splitlines()))], cited, data, bibtex)


def _cite(bundle: Bundle) -> dict[str, str]:
    """Return what a citation of a release has."""
    release, dataset, digest = bundle.release, bundle.release.dataset, bundle.manifest_sha256
    return {
        "title": figure_text(dataset.title or dataset.name, _LONGEST),
        "year": release.lineage.created[:4],
        "creator": figure_text(dataset.creator or f"Signer {bundle.signer.key.fingerprint[:24]}", _LONGEST),
        "digest": digest,
        "about": f"Release {release.lineage.number}, manifest sha256:{digest}",
        "url": dataset.url if WEB.fullmatch(dataset.url) else "",  # no brace ends a field of BibTeX
        "own": figure_text(dataset.citation, _LONGEST_CITATION).rstrip("."),
    }
