"""The judge of pages finds the faults that it is there to find, in pages that have one fault each."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.judging import LOOKS, axe_violations, faults, keyboard_complaints, outside_the_window
from tests.browser.opening import PHONE, Opened, open_page

pytestmark = pytest.mark.browser

SOUND = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark }} :focus-visible {{ outline: 3px solid }}
img {{ width: 200px }} {style}</style></head>
<body><main><h1>A page</h1><p>Some words.</p><label>Name <input></label> <button>Look</button>{body}
</main></body></html>"""


def write(folder: Path, body: str = "", style: str = "") -> Path:
    """Write a page that is sound but for this part of it."""
    path = folder / "page.html"
    path.write_text(SOUND.format(body=body, style=style), encoding="utf-8")
    return path


def test_sound_page_has_no_complaint(tmp_path: Path, open_silent: Callable[..., Opened]) -> None:
    """A page without faults passes everything, at both widths and in both colour schemes."""
    for look in LOOKS:
        assert faults(open_silent(write(tmp_path), **look).page) == []


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("<script>console.log('done')</script>", "console.log: done"),
        ("<script>nothing.there</script>", "script error: nothing is not defined"),
        ("<script>alert(1)</script>", "dialog: 1"),
        ("<img alt='dot' src='beside.png'>", "beside.png"),
        ("<script>fetch('https://example.org/').catch(() => 0)</script>", "asked for https://example.org/"),
        ("<script>new WebSocket('wss://example.org/')</script>", "asked for wss://example.org/"),
    ],
)
def test_what_a_page_says_and_asks_for_is_a_complaint(tmp_path: Path, browser: Browser, body: str, word: str) -> None:
    """A word on the console, an error, a dialog, and a request for anything but the page itself are found."""
    (tmp_path / "beside.png").write_bytes(b"")
    with open_page(browser, write(tmp_path, body)) as opened:
        opened.page.wait_for_timeout(100)

        assert any(word in complaint for complaint in opened.complaints), opened.complaints


@pytest.mark.parametrize(
    ("body", "style", "rule"),
    [
        ("", "p { color: #aaa; background: #fff }", "color-contrast"),
        ("<input type='range'>", "", "label"),
    ],
)
def test_axe_finds_a_planted_violation(tmp_path: Path, browser: Browser, body: str, style: str, rule: str) -> None:
    """Low contrast and a control without a label are violations."""
    with open_page(browser, write(tmp_path, body, style)) as opened:
        assert [found.split(" ")[0] for found in axe_violations(opened.page)] == [rule]


@pytest.mark.parametrize(
    ("body", "style"),
    [
        ("<div style='width: 600px'>wide</div>", ""),
        ("<div style='width: 600px'>wide</div>", "html, body { overflow-x: hidden }"),
        ("<pre>" + "word " * 40 + "</pre>", ""),
    ],
)
def test_what_is_wider_than_a_phone_is_found(tmp_path: Path, browser: Browser, body: str, style: str) -> None:
    """Content wider than the window is found even where the page hides it; inside a scrolling box it is in order."""
    path = write(tmp_path, body, style)
    with open_page(browser, path, size=PHONE) as opened:
        assert outside_the_window(opened.page)

    path = write(
        tmp_path, f"<div style='overflow-x: auto' tabindex='0' role='region' aria-label='box'>{body}</div>", style
    )
    with open_page(browser, path, size=PHONE) as opened:
        assert outside_the_window(opened.page) == []


@pytest.mark.parametrize(
    ("body", "style", "word"),
    [
        ("", ":focus-visible { outline: none }", "cannot be seen"),
        ("<div style='position: absolute; left: -3000px'><button>Away</button></div>", "", "off the screen"),
        (
            "<script>document.querySelector('button').onkeydown = e => e.preventDefault()</script><button>2</button>",
            "",
            "came to 2 of 3",
        ),
    ],
)
def test_faults_of_the_keyboard_are_found(tmp_path: Path, browser: Browser, body: str, style: str, word: str) -> None:
    """Focus that cannot be seen, focus off the screen, and a trap for focus are found."""
    with open_page(browser, write(tmp_path, body, style)) as opened:
        assert any(word in complaint for complaint in keyboard_complaints(opened.page))
