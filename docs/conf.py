"""How the site is built: `make site` runs Sphinx on this folder, with warnings as errors and without network."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

# Pages that run the commands find those of this environment, and keep keys and ledgers out of the user's own folders.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
STATE = Path(tempfile.mkdtemp(prefix="dpgraph-site-"))
atexit.register(shutil.rmtree, STATE, ignore_errors=True)
os.environ["DPGRAPH_HOME"] = str(STATE / "dpgraph")
os.environ["MPLBACKEND"] = "agg"
os.environ["PYTHONPATH"] = str(ROOT / "docs" / "tutorials")  # terminal.py, which the tutorials load

# Nor does a user's IPython settle how pages are run. Its kernels would warn that other users might read what they say.
os.environ["IPYTHONDIR"] = str(STATE / "ipython")
profile = STATE / "ipython" / "profile_default"
profile.mkdir(parents=True)
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n", encoding="utf-8")

sys.path.insert(0, str(ROOT / "docs"))  # for gallery.py and what follows

import executed  # noqa: E402  it is in docs/
from first_screen import make_example  # noqa: E402  as well

make_example(ROOT / "docs" / "_made")

project = "dpgraph"
author = "the dpgraph developers"
version = release = installed_version("dpgraph")
html_title = f"dpgraph {version}"

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}  # autosummary writes pages with the first
exclude_patterns = ["_build", "_made", "explanation/*", "explained/*.ipynb", "tutorials/executed/*"]
nitpicky = True

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4

# Tutorials are run, each in a folder of its own, where they have changed since they were run last, or if WHOLE is set
nb_execution_mode = "cache"
nb_execution_cache_path = str(executed.CACHE)
if not os.environ.get("WHOLE"):
    executed.offer()
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 1800  # seconds for a cell, as the machine may be busy
nb_merge_streams = True

# Explanations: every docs/explanation/plot_*.py becomes a page of docs/explained
sphinx_gallery_conf = {
    "examples_dirs": "explanation",
    "gallery_dirs": "explained",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "backreferences_dir": None,
    "download_all_examples": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "reset_modules": ("gallery.begin_page",),
    "reset_modules_order": "both",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}
for page in (ROOT / "docs" / "explained").glob("plot_*.*"):  # made from a script that is gone
    if not (ROOT / "docs" / "explanation" / f"{page.name.split('.')[0]}.py").exists():
        page.unlink()

copybutton_prompt_text = "$ "

# The public names
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_extra_path = ["_made/site"]
html_css_files = ["dpgraph.css"]
html_js_files = ["dpgraph.js"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "navigation_depth": 1,  # the buttons that unfold a page's list of pages have no name for a screen reader
    "logo": {"text": "dpgraph"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],  # the wider button's name is not the words on it
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_copy_source = False

# Links to files of the repository that have a page of their own on the site
PAGES_OF_FILES = {
    "CHANGELOG.md": "/reference/changelog.md",
    "CONTRIBUTING.md": "/reference/contributing.md",
    "RELEASE.md": "/reference/making-a-release.md",
    "SECURITY.md": "/reference/security.md",
}


def mend_links(text: str) -> str:
    """Return a page's Markdown with links to files of the root, and to scripts that draw, replaced by their pages."""
    for name, page in PAGES_OF_FILES.items():
        text = re.sub(rf"\]\((\.\./)*{re.escape(name)}", f"]({page}", text)
    return re.sub(r"\]\((\.\./)*explanation/(plot_\w+)\.py", r"](/explained/\2.rst", text)  # what was drawn


def read_page(_app: Any, docname: str, source: list[str]) -> None:
    """Mend the links of a page, and list the decisions below their own page."""
    source[0] = mend_links(source[0])
    if docname == "adr/README":
        source[0] += "\n```{toctree}\n:glob:\n:titlesonly:\n\n0*\n```\n"


def read_included(_app: Any, _path: Path, _docname: str, source: list[str]) -> None:
    """Mend the links of a file of the root that is the content of a page."""
    source[0] = mend_links(source[0])


def setup(app: Any) -> None:
    """Connect what this file does to pages."""
    app.connect("source-read", read_page)
    app.connect("include-read", read_included)
