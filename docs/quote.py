"""Renew what the README and the guides quote of the commands, and their pictures.

python docs/quote.py [PAGE ...]

Each page's commands are run in an empty folder, on the table of `examples/demo.py`. A quoted line becomes the line of
the new output that is most like it, or `...` where none is. A line `...` stays, and stands for what is not quoted.
Noise is drawn anew, so that figures change with every run.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import sync_playwright

from dp_learn.output.network import place_nodes

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "picture.svg"
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("publisher", "researcher", "portal"))]
BLOCK = re.compile(
    r"(?P<mark><!-- not run: [^\n]+ -->\n)?^```(?P<kind>console|toml)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LEAST_ALIKE = 0.5
PHOTOGRAPHS = {  # the page that a guide's commands made, the part of it that is shown, and how high that is in pixels
    "researcher": ("people.graph/report.html", "#graph", 640),
    "portal": ("site/datasets/people-*/release-1.html", "#label", 390),
}


def main(pages: list[Path]) -> None:
    """Renew the pages, and the picture with the README."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder), made=page.stem not in ("README", "publisher"))
            text = page.read_text(encoding="utf-8")
            renewed = BLOCK.sub(lambda found, folder=folder: renew_block(found, Path(folder)), text)
            page.write_text(renewed, encoding="utf-8")
            if page.stem == "README":
                PICTURE.write_text(draw(Path(folder) / "people.graph"), encoding="utf-8")
            if page.stem in PHOTOGRAPHS:
                made, selector, height = PHOTOGRAPHS[page.stem]
                (photographed,) = Path(folder).glob(made)
                photograph(photographed, selector, height, ROOT / "docs" / f"{page.stem}.png")


def prepare(folder: Path, *, made: bool) -> None:
    """Write the survey, and where a page has bundles, those of three publishers: the survey, and its halves."""
    people = runpy.run_path(str(ROOT / "examples" / "demo.py"))["make_people"]()
    people.to_csv(folder / "people.csv", index=False)
    if not made:
        return
    half = len(people) // 2
    south = people[half:].assign(bmi=people["bmi"][half:].sample(frac=1.0, random_state=0).to_numpy())
    people[:half].to_csv(folder / "north.csv", index=False)
    south.to_csv(folder / "south.csv", index=False)
    for name, command in (("publisher", "people.csv"), ("north", "north.csv")):
        run(f"dp-publish {command}", folder, home=name)
        shutil.copy(folder / f".{name}" / "keys" / "publisher.pub", folder / f"{name}.pub")
    run("dp-bundle trust north.pub --name North", folder, home="south")
    run("dp-publish south.csv --like north.bundle.tar", folder, home="south")
    shutil.copy(folder / ".south" / "keys" / "publisher.pub", folder / "south.pub")


def run(command: str, folder: Path, home: str = "home") -> list[str]:
    """Return the lines that a command prints, which has keys and a ledger of its own."""
    own = {"DPGRAPH_HOME": str(folder / f".{home}"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S602  as a reader types it
        command, shell=True, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(f"exit {done.returncode}: {command}\n{done.stderr}")
    return [line.rstrip() for line in (done.stdout or done.stderr).splitlines()]


def renew_block(found: re.Match[str], folder: Path) -> str:
    """Return a block with what its commands print now; save one that is a policy."""
    if found["kind"] == "toml" and "[dataset]" in found["text"]:
        name = tomllib.loads(found["text"])["dataset"]["name"]
        (folder / f"{name}.policy.toml").write_text(found["text"], encoding="utf-8")
    if found["mark"] or found["kind"] == "toml":
        return found[0]
    lines: list[str] = []
    printed: list[str] = []
    for line in found["text"].splitlines():
        if line.startswith("$ "):
            printed = run(line.removeprefix("$ "), folder)
            lines.append(line)
        else:
            quoted = most_alike(line, printed) if line.strip() != "..." else line
            lines += [quoted] if quoted != "..." or lines[-1] != "..." else []
    return "\n".join(["```console", *lines, "```"])


def most_alike(quoted: str, printed: list[str]) -> str:
    """Return the line of an output that a quoted one stands for, and take it out; a quoted line may lack its end."""
    cut = quoted.endswith(" ...")
    n_words = len(quoted.split()) - cut

    def short(line: str) -> str:
        words = re.match(rf"\s*(\S+\s*){{0,{n_words}}}", line)
        return f"{words[0].rstrip()} ..." if cut else line

    ratios = [difflib.SequenceMatcher(None, quoted, short(line), autojunk=False).ratio() for line in printed]
    if not ratios or max(ratios) < LEAST_ALIKE:
        sys.stderr.write(f"nothing like this is printed any more: {quoted}\n")
        return "..."
    return short(printed.pop(int(np.argmax(ratios))))


def photograph(page: Path, selector: str, height: int, path: Path) -> None:
    """Write a picture of the upper part of an element of a page, taken in this machine's Chromium, in few colours."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1180, "height": 1400}, color_scheme="light")
        shown.goto(page.as_uri())
        shown.wait_for_timeout(1500)  # milliseconds, for the graph to be drawn
        taken = Image.open(io.BytesIO(shown.locator(selector).screenshot())).convert("RGB")
        browser.close()
    taken.crop((0, 0, taken.width, min(height, taken.height))).quantize(32).save(path, "PNG", optimize=True)


# The picture: histograms and links on the left, the promise on the right.

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2933 }
.title { font-size: 17px; font-weight: 600 }
.small { font-size: 11.5px; fill: #52606d }
.paper { fill: #ffffff } .bar { fill: #9fb3c8 } .node { fill: #1f2933 }
.plus, .minus, .some { fill: none; stroke-linecap: round }
.plus { stroke: #0072b2 } .minus { stroke: #c04a00; stroke-dasharray: 5 5 } .some { stroke: #7b8794 }
.chance { fill: #cbd2d9 } .gain { fill: #d55e00 } .wrong { fill: none; stroke: #9aa5b1 }
.halo { stroke: #ffffff; stroke-width: 4px; paint-order: stroke }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb } .small { fill: #9aa5b1 } .paper { fill: #14181e }
  .bar { fill: #486581 } .node { fill: #e4e7eb }
  .plus { stroke: #56b4e9 } .minus { stroke: #ff9a57 } .chance { fill: #52606d } .gain { fill: #ff9a57 }
  .halo { stroke: #14181e }
}
"""


def draw(graph: Path) -> str:
    """Return the picture of a result of dp-learn as SVG, for light and dark paper."""
    margins, edges = (pd.read_csv(graph / f"{name}.csv") for name in ("margins", "edges"))
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 330" role="img">',
        "<title>Left: noisy histograms of eight columns, and the links between them. Right: what is promised.</title>",
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="960" height="330" rx="8"/>',
        '<text class="title" x="24" y="34">What everybody may see of 5,000 people</text>',
        *draw_histograms(margins),
        *draw_links(edges),
        '<text class="title" x="655" y="34">What each one is promised</text>',
        *draw_promise(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def draw_histograms(margins: pd.DataFrame) -> list[str]:
    """Return a histogram of each column: areas are noisy shares of rows."""
    parts = []
    for place, (name, cells) in enumerate(margins.groupby("column", sort=False)):
        x, y, width, height = 24 + 130 * (place % 2), 62 + 66 * (place // 2), 112.0, 38.0
        parts.append(f'<text class="small" x="{x}" y="{y}">{str(name).replace("_", " ")}</text>')
        cells = cells[cells["level"] != "(no value)"]
        ends = cells[["low", "high"]].to_numpy()
        shares = cells["share"].to_numpy()
        if len(shares) > 2 and not np.isnan(ends).any():  # numbers: without the outermost of the rows on either side
            rank = np.cumsum(shares) / shares.sum()
            kept = (rank > 0.005) & (rank - shares < 0.98) & np.isfinite(ends).all(axis=1)
            ends, shares = ends[kept], shares[kept]
        else:
            ends = np.arange(len(shares))[:, None] + [0.1, 0.9]
        heights = shares / (ends[:, 1] - ends[:, 0])
        places = x + width * (ends - ends[0, 0]) / (ends[-1, 1] - ends[0, 0])
        bars = [
            f"M{left:.1f} {y + 6 + height:.0f}v{-each:.1f}h{right - left:.1f}v{each:.1f}"
            for (left, right), each in zip(places, height * heights / heights.max(), strict=True)
        ]
        parts.append(f'<path class="bar" d="{"".join(bars)}"/>')
    return parts


def draw_links(edges: pd.DataFrame) -> list[str]:
    """Return the graph: blue lines are positive links, dashed orange ones negative, grey ones those of categories."""
    names = sorted({*edges["source"], *edges["target"]})
    ends = edges[["source", "target"]].map(names.index).to_numpy()
    strength = edges["partial_correlation"].to_numpy()
    places = place_nodes(len(names), ends, strength)
    places = (places - places.min(axis=0)) / np.ptp(places, axis=0) * [250, 200] + [335, 80]
    parts = []
    for (start, end), edge in zip(ends, edges.itertuples(), strict=True):
        kind = "some" if np.isnan(edge.desparsified) else "plus" if edge.partial_correlation > 0 else "minus"
        line = "M{:.0f} {:.0f}L{:.0f} {:.0f}".format(*places[start], *places[end])
        parts.append(f'<path class="{kind}" d="{line}" stroke-width="{1 + 14 * abs(edge.partial_correlation):.1f}"/>')
    for name, (x, y) in zip(names, places, strict=True):
        above = y < places[:, 1].mean()
        parts.append(f'<circle class="node" cx="{x:.0f}" cy="{y:.0f}" r="5"/>')
        parts.append(
            f'<text class="halo" x="{x:.0f}" y="{y + (-11 if above else 21):.0f}" text-anchor="middle">'
            f"{name.replace('_', ' ')}</text>"
        )
    return parts


def draw_promise() -> list[str]:
    """Return a hundred guesses at mu = 1: at most 69.2 % are right on average, where 50 % are by chance."""
    parts = []
    for guess in range(100):
        kind = "chance" if guess < 50 else "gain" if guess < 70 else "wrong"
        x, y = 662 + 15 * (guess % 10), 66 + 15 * (guess // 10)
        parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="5"/>')
    told = ["50 right by chance", "20 more, at most", "30 wrong, at least"]
    for line, (kind, words) in enumerate(zip(("chance", "gain", "wrong"), told, strict=True)):
        parts.append(f'<circle class="{kind}" cx="830" cy="{80 + 40 * line}" r="5"/>')
        parts += [
            f'<text class="small" x="841" y="{84 + 40 * line + 14 * below}">{part}</text>'
            for below, part in enumerate(re.split(r"(?<=right|more,|rong,) ", words))
        ]
    sentences = ["Somebody knows everybody else's row, and has", "two candidates for yours. Of 100 such guesses,"]
    sentences += ["at most 69.2 are right on average. A coin: 50."]
    return parts + [
        f'<text class="small" x="655" y="{240 + 17 * row}">{line}</text>' for row, line in enumerate(sentences)
    ]


if __name__ == "__main__":
    main([Path(word).resolve() for word in sys.argv[1:]] or PAGES)
