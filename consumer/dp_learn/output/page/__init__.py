"""The page of a result: everything that was found, and what it rests on, in one file for a browser."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.output.page.findings import Findings
    from dp_learn.output.page.report import make_report
else:
    __getattr__ = import_on_demand(__name__)
