"""The page of a plan: what every strength would show and protect, in one file for a browser."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.forecast.page.budget import Account, budget_of
    from dp_publish.forecast.page.command_lines import Asked
    from dp_publish.forecast.page.report import make_page, require_page, write_page
else:
    __getattr__ = import_on_demand(__name__)
