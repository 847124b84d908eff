"""Phrases in the words of whoever reads them: of options and a policy's file, or of the desk's form.

A sentence is made where something is found, and says what to do about it. Whoever types commands does that by an
option or an entry of the policy; whoever fills in the form has neither at hand. In the form's words, «kind» stands for
the label of the field that holds this entry, and the form puts the label there.
"""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

FORM_ASKS = "DPGRAPH_FORM_ASKS"  # in the environment of a command that the desk runs
_AT_FORM = ContextVar("at_form", default=FORM_ASKS in os.environ)


class Phrase:
    """A part of a sentence, whose words are chosen when the sentence is made.

    Parameters
    ----------
    typed, chosen : str
        For whoever types commands, and for whoever chooses in the form.
    """

    def __init__(self, typed: str, chosen: str) -> None:
        self.typed, self.chosen = typed, chosen

    def __str__(self) -> str:
        return self.chosen if _AT_FORM.get() else self.typed


@contextlib.contextmanager
def at_form() -> Iterator[None]:
    """Have the sentences that are made in a block say what to do in the form."""
    token = _AT_FORM.set(True)
    try:
        yield
    finally:
        _AT_FORM.reset(token)


def typed(words: str) -> Phrase:
    """Return what to type, in parentheses, of which the form says nothing."""
    return Phrase(f" ({words})", "")


BY_POLICY = Phrase("in the policy, ", "")
IN_POLICY = Phrase(" in the policy", "")
IN_TABLE = Phrase(" under [table] in the policy", " under “How the file is written”")
A_POLICY = Phrase(" (`dp-publish policy DATA` writes a policy)", "")
ENCODING = Phrase("encoding under [table] in the policy", "“«encoding»”")
DELIMITER = Phrase("delimiter under [table] in the policy", "“«delimiter»”")
MISSING_VALUES = Phrase("missing_values under [table]", "“«missing_values»”")
LEAVE_OUT = Phrase("set drop = true", "leave it out")
LEAVE_IT_OUT = Phrase("set drop = true for it", "leave it out")
PASS_ANYWAY = Phrase("pass --anyway", "tick “Publish even what would be refused”")
