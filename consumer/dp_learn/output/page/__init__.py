"""The page of a result: everything that was found, and what it rests on, in one file for a browser."""

from typing import Any

from dp_learn.output.description import Description
from dp_learn.output.summary import GraphResult


def make_page(result: Any, command: str) -> str:
    """Return the page of any result as one HTML document that needs no network, the same for the same result.

    Parameters
    ----------
    result : Result
        Of any kind.
    command : str
        The command that gives the same result, with the names of files but not where they are.
    """
    from dp_learn.output.page import report  # Bokeh is slow to import

    if isinstance(result, GraphResult):
        return report.make_report(result, command)
    if isinstance(result, Description):
        return report.make_description_page(result, command)
    from dp_learn.output.page import several  # and what it shows, of which most results hold nothing

    return several.make_page_of_several(result, command)
