"use strict";
// The graph of the period that the slider is at.
(async () => {
  const joint = dpgraph.data.joint;
  if (!joint) return;
  const figures = await dpgraph.ready;
  const model = (name) => (figures.graph.document).get_model_by_name(name);
  const element = (id) => document.getElementById(id);
  const n_links = joint.ends.length;
  const strongest = Math.max(0.01, ...joint.weights.map((own) => Math.max(...own.map(Math.abs))));
  const signed = (value) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(3)}`;
  const kinds = {"1": "larger", "0": "same", "-1": "smaller"};

  function show_period(period) {
    const [weights, changed] = [joint.weights[period], joint.kinds[period]];
    const shown = Array.from({length: n_links}, (_, link) => link)
      .filter((link) => weights[link] !== 0 || changed[link] !== 0)
      .sort((a, b) => Math.abs(changed[a]) - Math.abs(changed[b])); // what changed is drawn last
    const data = {};
    for (const name of ["x0", "y0", "x1", "y1", "ends"]) data[name] = shown.map((link) => joint[name][link]);
    data.kind = shown.map((link) => kinds[changed[link]]);
    data.width = shown.map((link) => (weights[link] ? 0.8 + (7 * Math.abs(weights[link])) / strongest : 1.2));
    data.dash = shown.map((link) => (weights[link] === 0 ? "2 4" : weights[link] < 0 ? "9 6" : "solid"));
    data.value = shown.map((link) => (weights[link] ? `partial correlation ${signed(weights[link])}` : "no link any more"));
    model("joint-links").data = data;

    const n_shown = shown.filter((link) => weights[link] !== 0).length;
    const n_changed = shown.filter((link) => changed[link] !== 0).length;
    element("joint-period-shown").textContent = joint.names[period];
    element("joint-period").setAttribute("aria-valuetext", joint.names[period]);
    element("joint-told").textContent = `${n_shown} link${n_shown === 1 ? "" : "s"}, ${n_changed} changed`;
  }

  const slider = element("joint-period");
  slider.addEventListener("input", () => show_period(Number(slider.value)));
  element("joint-controls").hidden = false;
  show_period(Number(slider.value));
})();
