"""A forecast of what a researcher could still see in a release; it reads no private value and spends nothing."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.forecast.advance_check import check_in_advance, describe_first_rows
    from dp_publish.forecast.advice import changes_for_moments, shows_something, ways_out
    from dp_publish.forecast.assumptions import describe_spread, median_spread
    from dp_publish.forecast.findings import describe_findings, describe_seen
    from dp_publish.forecast.outlook import DELTA, TARGETS, ForecastRow, forecast
    from dp_publish.forecast.page import Account, Asked, budget_of, make_page, require_page, write_page
    from dp_publish.forecast.picture import draw_plan
    from dp_publish.forecast.plan import Plan, make_plan
    from dp_publish.forecast.power import describe_count, moments_error, smallest_seen
    from dp_publish.forecast.printed import printed_epsilon, printed_mu
    from dp_publish.forecast.refusal import refuse_pointless, share_unchanged, why_hidden
else:
    __getattr__ = import_on_demand(__name__)
