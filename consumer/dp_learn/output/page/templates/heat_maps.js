"use strict";
// The pair that the pointer is on, in all heat maps at once.
(async () => {
  const heat = dpgraph.data.heat;
  if (!heat) return;
  const roots = await dpgraph.ready;
  const said = document.getElementById("heat-says");
  const usual = said.textContent;
  const {names, maps} = heat;
  const images = maps.map(({name}) => roots[name].document.get_model_by_name(name).data.image[0]);
  const missing = -128;

  function value_of(image, row, column) {
    const hundredths = image[(names.length - 1 - row) * names.length + column];
    if (hundredths === missing) return "unknown";
    return `${hundredths < 0 ? "\u2212" : ""}${(Math.abs(hundredths) / 100).toFixed(2)}`;
  }

  function tell(event) {
    const [column, up] = [Math.floor(event.x), Math.floor(event.y)];
    const row = names.length - 1 - up;
    if (!(column in names) || !(row in names)) return;
    const values = maps.map(({title}, map) => `${title.toLowerCase()} ${value_of(images[map], row, column)}`);
    said.textContent = `${names[row]} \u2013 ${names[column]}: ${values.join(", ")}`;
  }

  for (const {name} of maps) {
    roots[name].on_event("mousemove", tell);
    roots[name].on_event("tap", tell);
    roots[name].on_event("mouseleave", () => { said.textContent = usual; });
  }
})();
