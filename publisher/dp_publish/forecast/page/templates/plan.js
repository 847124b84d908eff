"use strict";
// The slider: puts the texts and the marks of one strength in the place of another's.
(() => {
  const slider = document.getElementById("strength");
  const positions = dpgraph.data.positions;
  let models = {};

  const number = (value) => (value === null ? NaN : value);

  function say(texts) {
    for (const place of document.querySelectorAll("[data-say]")) {
      const text = texts[place.dataset.say];
      if (text !== undefined && place.textContent !== text) place.textContent = text;
    }
    slider.setAttribute("aria-valuetext", `mu = ${texts.mu}${texts.own ? `, ${texts.own}` : ""}`);
  }

  function source_of(model, name) {
    const found = model.renderers.find((each) => each.data_source?.name === name);
    return found?.data_source;
  }

  function mark(position) {
    for (const name of ["seen", "error"]) {
      const model = models[name];
      if (!model) continue;
      source_of(model, "strength").data = {mu: [position.mu]};
      ["rows", "moments"].forEach((each, place) => {
        const source = source_of(model, each);
        if (source) source.data = {mu: [position.mu], y: [number(position[name][place])]};
      });
    }
    const source = models["trade-off"] && source_of(models["trade-off"], "chosen");
    if (source) source.data = {x: source.data.x, y: position.missed};
  }

  function mark_rows(position) {
    for (const row of document.querySelectorAll("#strengths tbody tr")) {
      const own = Math.abs(Number(row.cells[0].dataset.order) / position.mu - 1) < 1e-6;
      if (own) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  function choose() {
    const position = positions[Number(slider.value)];
    say(position.texts);
    mark(position);
    mark_rows(position);
  }

  slider.disabled = false;
  slider.addEventListener("input", choose);
  choose();
  dpgraph.ready.then((found) => { models = found; choose(); });
})();
