"""What a page must be: accessible, no wider than its window, and usable from the keyboard."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

FOLDER = Path(__file__).parent
AXE = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


LOOKS: list[dict[str, Any]] = [{}, {"size": (390, 844), "scheme": "dark"}]  # on a desk, and on a phone in the dark


def faults(page: Page, *, keyboard: bool = True) -> list[str]:
    """Return all that is wrong with a page as it is shown."""
    return [*axe_violations(page), *outside_the_window(page), *(keyboard_complaints(page) if keyboard else [])]


def axe_violations(page: Page) -> list[str]:
    """Return what axe-core finds wrong by WCAG 2.2 A and AA and by best practice: the rule, and the first elements."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    run = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations'], preload: false})"
    violations: list[dict[str, Any]] = page.evaluate(run, RULES)["violations"]
    return [
        f"{found['id']} ({len(found['nodes'])}): {found['help']}: "
        + "; ".join(f"{node['target']} {node['html'][:160]}" for node in found["nodes"][:3])
        for found in violations
    ]


def outside_the_window(page: Page) -> list[str]:
    """Return what makes the page wider than its window, or hangs over its right edge outside any scrolling box."""
    found: list[str] = _ask(page, "outside")
    return found


def walk_by_tab(page: Page, most: int = 400) -> list[dict[str, Any]]:
    """Press Tab from the top of the page until focus leaves it; return the elements that it came to, in order."""
    walked: list[dict[str, Any]] = []
    page.evaluate("() => { document.activeElement?.blur(); window.scrollTo(0, 0); }")
    while len(walked) < most:
        page.keyboard.press("Tab")
        focused = _ask(page, "focused")
        if focused is None or focused["number"] in {seen["number"] for seen in walked}:
            break
        walked.append(focused)
    return walked


def keyboard_complaints(page: Page) -> list[str]:
    """Return what Tab cannot reach, and where its focus cannot be seen."""
    n_controls: int = _ask(page, "controls")
    walked = walk_by_tab(page)
    complaints = [f"focus on {seen['name']!r} cannot be seen" for seen in walked if not seen["marked"]]
    complaints += [f"focus on {seen['name']!r} is off the screen" for seen in walked if not seen["onScreen"]]
    if len(walked) < n_controls:
        complaints.append(f"Tab came to {len(walked)} of {n_controls} controls, the last being {walked[-1:]}")
    return complaints


def _ask(page: Page, question: str) -> Any:
    questions = (FOLDER / "judging.js").read_text(encoding="utf-8")
    return page.evaluate(f"() => {{ {questions}\n return judging.{question}(); }}")
