"""The penalty: a path of alphas, and the rules that choose on it.

Every rule sees debiased matrices on one scale and nothing else, walks the path from the empty graph downwards, and
says in a `Selection` what it chose and, where the choice needs a word, why.
"""

from dp_learn.selection.cross_validation import Split, cross_validate
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import SMALLEST, Selection, alpha_grid, solve_path
from dp_learn.selection.stars import select_stars, stars_subsample_share

__all__ = [
    "SMALLEST",
    "Selection",
    "Split",
    "alpha_grid",
    "cross_validate",
    "select_ebic",
    "select_stars",
    "solve_path",
    "stars_subsample_share",
]
