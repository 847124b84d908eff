"""The published numbers: noisy rows or one matrix, read from Parquet that nobody needs to trust."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.data.arrow_numpy import text_to_arrow, to_arrow, to_numpy
    from dp_bundle.data.matrix import read_triangle, stated_rows, triangle_table, write_triangle
    from dp_bundle.data.recovery import mean_and_covariance
    from dp_bundle.data.row_reader import RowGroup, find_groups, part_groups, read_parts, require_all_rows
    from dp_bundle.data.rows import PartWriter, batch_rows, group_rows, part_rows, part_schema
else:
    __getattr__ = import_on_demand(__name__)
