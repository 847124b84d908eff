"""The researcher's results: messages, the folder of files, and the picture."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.output.estimator_results import learn_alternative
    from dp_learn.output.folder import foreign_content, write_results
    from dp_learn.output.messages import describe_alternative, describe_learned, title_of
    from dp_learn.output.page import Findings, make_report
    from dp_learn.output.result import Result
    from dp_learn.output.summary import Summary, summarize
else:
    __getattr__ = import_on_demand(__name__)
