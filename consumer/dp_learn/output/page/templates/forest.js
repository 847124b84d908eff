"use strict";
// The names of the links: beside their intervals where there is room, above them on narrow screens.
(async () => {
  const plot = (await dpgraph.ready).forest;
  if (!plot) return;
  const place = document.getElementById("forest");
  const [axis, rows, above] = ["axis", "rows", "names"].map((name) => plot.document.get_model_by_name(`forest-${name}`));
  const n_rows = plot.y_range.end - plot.y_range.start;
  const tall = plot.height;

  function arrange() {
    const beside = place.clientWidth >= 700; // pixels
    if (beside === axis.visible) return;
    axis.visible = rows.visible = beside;
    above.visible = !beside;
    plot.height = beside ? Math.round(70 + 26 * n_rows) : tall;
  }
  new ResizeObserver(arrange).observe(place);
  arrange();
})();
