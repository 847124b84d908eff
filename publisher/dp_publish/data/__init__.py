"""The private table: formats and dialects, contribution caps, missing values, and its first rows."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.data.cells import KINDS_OF_WORDS, missing_numbers
    from dp_publish.data.contribution_cap import (
        NAME,
        CappedRanges,
        EntityCap,
        add_counts,
        count_entities,
        count_left_out,
        draw_quotas,
        find_kept,
        require_quotas,
        unpack_kept,
    )
    from dp_publish.data.deviations import standard_deviations
    from dp_publish.data.dialect import Dialect, Layout, make_dialect, unpacked_name
    from dp_publish.data.fingerprint import describe_files
    from dp_publish.data.first_rows import LEAST_ROWS, Glance, find_codes, glance
    from dp_publish.data.missing import RowReport, drop_missing, fill_missing, find_complete, find_gaps, mark_missing
    from dp_publish.data.row_count import count_rows, rows_known
    from dp_publish.data.row_ranges import RowRanges
    from dp_publish.data.table import ColumnType, Source, Table, coded, open_table
    from dp_publish.data.text_file import TextFile, is_text_file
    from dp_publish.data.typed import TypedRanges
else:
    __getattr__ = import_on_demand(__name__)
