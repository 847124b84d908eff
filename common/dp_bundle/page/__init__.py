"""Pages that open from a disk without network: templates, styles, tables one can sort, and figures one can touch."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.page.colours import COMMUNITIES, DIVERGING, PAPER, SEQUENTIAL, SHADES, Shade, shade
    from dp_bundle.page.document import Page, as_json, render_page
    from dp_bundle.page.figures import FONT, Figure, by_sign, figure_text, hover, new_figure
    from dp_bundle.page.tables import Column, Table, number
else:
    __getattr__ = import_on_demand(__name__)
