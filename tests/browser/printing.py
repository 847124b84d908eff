"""The page on paper: printed to PDF by the browser, and read back."""

from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page
from pypdf import PdfReader

_A4 = (718, 1047)  # CSS pixels inside margins of 10 mm and 15 mm


@dataclass
class Printed:
    """A printed page: the text of every sheet, and how many pictures all of them hold."""

    sheets: list[str]
    n_pictures: int

    @property
    def text(self) -> str:
        """All words, with one space between them: where lines break does not matter."""
        return " ".join(" ".join(self.sheets).split())


def print_page(page: Page, path: Path) -> Printed:
    """Print to this file on A4, as a reader would with the browser's own margins, and read what was printed."""
    page.pdf(
        path=path,
        format="A4",
        margin={"top": "15mm", "bottom": "15mm", "left": "10mm", "right": "10mm"},
        print_background=False,
    )
    reader = PdfReader(path)
    pictures = {image.indirect_reference.idnum for sheet in reader.pages for image in sheet.images}
    return Printed([sheet.extract_text() for sheet in reader.pages], len(pictures))


_SETTLE = """async () => {
  const started = performance.now();
  for (let calm = 0, last = -1; calm < 10 && performance.now() - started < 10000; ) {
    await new Promise(resume => setTimeout(resume, 50));
    const width = document.documentElement.scrollWidth;
    calm = width === last ? calm + 1 : 0;
    last = width;
  }
}"""


def lay_out_for_paper(page: Page) -> None:
    """Give the page the width and the styles that it has on A4, so that its layout can be judged on the screen.

    Figures follow the window's width a moment later, on a busy machine a long one.
    """
    page.set_viewport_size({"width": _A4[0], "height": _A4[1]})
    page.emulate_media(media="print")
    page.evaluate(_SETTLE)
