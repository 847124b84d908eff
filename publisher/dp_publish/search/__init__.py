"""What is found privately in a column, by the exponential mechanism: its center and its scale."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.search.exponential import ExponentialMechanism
    from dp_publish.search.places import (
        CenterSearch,
        FloatGrid,
        Grid,
        ScaleSearch,
        add_to_cells,
        cells_for,
        find_place,
        least_scale,
        place_chosen,
    )
else:
    __getattr__ = import_on_demand(__name__)
