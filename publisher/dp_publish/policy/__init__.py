"""The publisher's decisions: the policy, its file, and what they make of each column."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.policy.choices import (
        DEFAULT_SPREAD,
        STRENGTHS,
        Mechanism,
        ReleaseKind,
        SoundMechanism,
        UnsoundMechanism,
    )
    from dp_publish.policy.coded_columns import blocks_of, gap_columns, raw_names
    from dp_publish.policy.column_survey import find_regrettable, point_out_names, quote_header, survey
    from dp_publish.policy.columns import choose_columns, require_bounds, require_rows
    from dp_publish.policy.file import find_policy, policy_path, used_policy
    from dp_publish.policy.memory import count_threads, require_plan, require_publishing, require_template
    from dp_publish.policy.model import ColumnPolicy, EntityUnit, Policy, Privacy
    from dp_publish.policy.public import public_facts
    from dp_publish.policy.sections import resolve
    from dp_publish.policy.template import describe_undecided, policy_template
else:
    __getattr__ = import_on_demand(__name__)
