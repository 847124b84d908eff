"""The penalty: a path of alphas, and the rules that choose on it.

Every rule sees debiased matrices on one scale and nothing else, walks the path from the empty graph downwards, and
says in a `Selection` what it chose and, where the choice needs a word, why.
"""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.selection.cross_validation import cross_validate
    from dp_learn.selection.ebic import select_ebic
    from dp_learn.selection.path import SMALLEST, Selection, alpha_grid, solve_path
    from dp_learn.selection.rules import Rule
    from dp_learn.selection.stars import select_stars, stars_subsample_share
else:
    __getattr__ = import_on_demand(__name__)
