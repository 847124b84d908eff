"""What a layman reads has short sentences: receipts, the question before payment, the pages, and the desk."""

import html
import re
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.conftest import Call

from dp_bundle.catalog.making import SiteSettings, make_catalog
from dp_publish.cli.desk.page import render_desk, state
from dp_publish.cli.desk.session import Asked, Session

MOST = 20  # words
_UNSEEN = re.compile(r"(?s)<(script|style|pre)\b.*?</\1>|<!--.*?-->")
_BLOCK = re.compile(r"</?(?!(?:a|b|bdi|span|strong|time|code|output)\b)[a-z][^>]*>")
_SAID = re.compile(r' (?:aria-label|title|alt|content)="([^"]*)"')
_END = re.compile(r"(?<=[.?!:;])[\"”)]*\s+|\n")
_NAMES = r"(?:\"?[‘'“\"]?\b(?:{})\b[’'”\"]?\"?(?:, | and )?)+"


def too_long(text: str, names: list[str]) -> list[str]:
    """Return the long sentences of a page or a text, in which a list of names of columns is one word."""
    if "</" in text:
        seen = _UNSEEN.sub("\n", text)
        lines = _BLOCK.sub("\n", " \n".join([*_SAID.findall(seen), re.sub(r"\s+", " ", seen)]))
        text = html.unescape(re.sub(r"<[^>]*>", "", lines))
    said = _END.split(re.sub(_NAMES.format("|".join(names)), "NAMES ", text))
    return [each for each in said if len(re.findall(r"\S*\w\S*", each)) > MOST]


@pytest.fixture
def survey(tmp_path: Path) -> list[str]:
    """Write a table of words, dates and gaps, with several rows of one person; return its columns' names."""
    rng, n = np.random.default_rng(5), 2000
    frame = pd.DataFrame({f"item{number}": rng.integers(1, 6, n) for number in range(9)})
    frame["member"], frame["height"] = np.arange(n) // 2, rng.normal(170, 9, n).round(1)
    frame["region"], frame["note"] = rng.choice(["north", "south", "west"], n), [f"of {k}" for k in rng.permutation(n)]
    frame["visit"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")).strftime("%Y-%m-%d")
    frame.loc[rng.random(n) < 0.2, "item1"] = np.nan
    frame.to_csv(tmp_path / "survey.csv", index=False)
    return [*frame]


def test_a_text_with_a_long_sentence_is_found() -> None:
    """As prose, in an attribute and in blocks of a page; lists of names, and what is not prose, are not."""
    long = "word " * 21
    assert too_long(long, ["a"]) == [long]
    assert (
        len(too_long(f"<p>{long}.</p><p aria-label='x' title=\"{long}\">{'a, ' * 30}</p><pre>{long}</pre>", ["a"])) == 2
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--unit", "row"],
        ["--unit", "row", "--release", "rows", "--mu", 20, "--anyway"],
        ["--unit", "member", "--max-rows", 2, "--mu", 2],
    ],
    ids=["histograms", "rows", "entities"],
)
def test_every_sentence_is_short(
    words: list[object], survey: list[str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sentence of the receipt, of the question, of a page or of the desk is long; pages begin with five answers."""
    receipt = call("survey.csv", *words, "--out", "survey.bundle.tar").out
    details = call("survey.csv", *words, "--out", "second.bundle.tar", "--details").out
    call("judge", "survey.csv", "survey.bundle.tar")
    with monkeypatch.context() as patch:
        for stream in ("stdin", "stderr"):
            patch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
        patch.setattr(click, "confirm", lambda *_, **__: False)
        question = call("survey.csv", *words, "--out", "third.bundle.tar").err
    make_catalog(Path(), Path("site"), SiteSettings())

    pages = [*Path().glob("*.html"), *Path("site").rglob("*.html")]
    assert len(pages) >= 6
    texts = {"receipt": receipt, "details": details, "question": question}
    texts |= {str(page): page.read_text() for page in pages}
    session = Session(Asked(Path("survey.csv"), "survey", Path("survey.policy.toml"), "default", None, None))
    answer = session.answer({"privacy-unit": "row"})
    texts["desk"] = "".join([render_desk(answer, session), *state(answer, session)["parts"].values()])
    session.close()
    long = [f"{name}: {each}" for name, text in texts.items() for each in too_long(text, survey)]
    assert not long, "\n".join(long)
    for page in (text for name, text in texts.items() if "bundle.html" in name or "release-" in name):
        first = page.partition("</section>")[0]
        asked = ["Who is protected?", "How sure is that?", "What does a reader see?", "What is missing?", "passed on?"]
        assert [each for each in asked if each not in first] == []
