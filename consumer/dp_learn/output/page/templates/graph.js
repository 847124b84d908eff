"use strict";
// The graph: what is shown follows from the sliders, the list, the search and a click, and only from these.
(async () => {
  const graph = dpgraph.data.graph;
  if (!graph) return;
  const plot = (await dpgraph.ready).graph;
  const model = (name) => plot.document.get_model_by_name(name);
  const element = (id) => document.getElementById(id);
  const {edges} = graph;
  const n_nodes = graph.names.length;
  const hidden = new Set(graph.hidden);
  const sizes = edges.weight.map(Math.abs);
  const strongest = Math.max(...sizes, 0.01);
  const neighbours = Array.from({length: n_nodes}, () => []);
  edges.source.forEach((source, edge) => {
    neighbours[source].push(edge);
    neighbours[edges.target[edge]].push(edge);
  });
  const most_links = Math.max(...neighbours.map((links) => links.length), 1);
  const largest = Math.min(22, 8 + 80 / Math.sqrt(n_nodes)); // pixels
  const size_of = (node) => largest * (0.35 + 0.65 * Math.sqrt(neighbours[node].length / most_links));
  const signed = (value, digits = 2) => `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(digits)}`;
  const strength_of = (edge, digits) =>
    graph.unsigned[edge] ? sizes[edge].toFixed(digits) : signed(edges.weight[edge], digits);
  const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

  const state = {least: 0, most_q: 1, chosen: -1, found: new Set()};

  // --- What is shown ---
  const is_shown = (edge) =>
    sizes[edge] >= state.least &&
    (!edges.q_value || state.most_q >= 1 || edges.q_value[edge] <= state.most_q) &&
    (state.chosen < 0 || edges.source[edge] === state.chosen || edges.target[edge] === state.chosen);

  function interval_of(edge) {
    const known = edges.ci_low && edges.ci_low[edge] !== null;
    if (!known) return edges.evidence ? `evidence ${edges.evidence[edge].toFixed(1)}` : "";
    const bounds = `${signed(edges.ci_low[edge], 3)} to ${signed(edges.ci_high[edge], 3)}`;
    return `without a graph ${signed(edges.desparsified[edge], 3)}, 95 % interval ${bounds}`;
  }

  function edge_columns(shown) {
    const ends = shown.map((edge) => [edges.source[edge], edges.target[edge]]);
    const at = (share, place) => ends.map(([from, to]) => place[from] + share * (place[to] - place[from]));
    const drawn = {x0: at(0, graph.x), y0: at(0, graph.y), x1: at(1, graph.x), y1: at(1, graph.y)};
    drawn.sign = shown.map((edge) => (edges.weight[edge] < 0 ? "-" : "+"));
    drawn.width = shown.map((edge) => 0.8 + (graph.strong[edge] ? ((largest / 4) * sizes[edge]) / strongest : 0));
    drawn.dash = shown.map((edge) => (edges.weight[edge] < 0 ? "9 6" : "solid"));
    drawn.alpha = shown.map((edge) => (graph.strong[edge] ? 0.35 + (0.55 * sizes[edge]) / strongest : 0.3));

    const middle = {x0: at(0.15, graph.x), y0: at(0.15, graph.y), x1: at(0.85, graph.x), y1: at(0.85, graph.y)};
    middle.ends = ends.map(([from, to]) => `${graph.names[from]} \u2013 ${graph.names[to]}`);
    middle.value = shown.map((edge) => `${graph.measure} ${strength_of(edge, 3)}`);
    middle.interval = shown.map(interval_of);
    middle.q = shown.map((edge) => (edges.q_value ? `q-value ${edges.q_value[edge].toPrecision(2)}` : ""));
    return [drawn, middle];
  }

  function node_columns(linked) {
    const nodes = Array.from({length: n_nodes}, (_, node) => node).filter((node) => !hidden.has(node));
    const near = (node) => state.chosen < 0 || node === state.chosen || linked.has(node);
    return {
      x: nodes.map((node) => graph.x[node]),
      y: nodes.map((node) => graph.y[node]),
      name: nodes.map((node) => graph.names[node]),
      node: nodes,
      size: nodes.map(size_of),
      community: nodes.map((node) => String(graph.community[node])),
      alpha: nodes.map((node) => (near(node) ? (linked.has(node) || node === state.chosen ? 1 : 0.35) : 0.12)),
      ring: nodes.map((node) => (state.found.has(node) || node === state.chosen ? 1 : 0)),
      width: nodes.map(() => 3),
      links: nodes.map((node) => (graph.degrees[node] ? plural(graph.degrees[node], "link") : "no link")),
      noise: nodes.map((node) => (graph.noise ? `${(100 * graph.noise[node]).toPrecision(2)} % of the variance is noise` : "")),
    };
  }

  // Labels where there is room: of the chosen and the found columns first, then of those with most links.
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  let labelled = new Set();
  let shown_edges = new Set();

  // Whether a line has a point in a box of left, top, right and bottom (Liang and Barsky).
  function crosses([x, y], [to_x, to_y], [left, top, right, bottom]) {
    let [first, last] = [0, 1];
    for (const [step, room] of [[x - to_x, x - left], [to_x - x, right - x], [y - to_y, y - top], [to_y - y, bottom - y]]) {
      if (step === 0 && room < 0) return false;
      if (step < 0) first = Math.max(first, room / step);
      if (step > 0) last = Math.min(last, room / step);
    }
    return first < last;
  }

  function place_labels() {
    const [across, up] = [plot.x_range, plot.y_range];
    const [width, height] = [plot.inner_width, plot.inner_height];
    const rank = (node) => (node === state.chosen ? 1e9 : 0) + (state.found.has(node) ? 1e6 : 0) + neighbours[node].length;
    const order = [...labelled].sort((first, second) => rank(second) - rank(first) || first - second);
    const screen = new Map(order.map((node) => [node, [
      ((graph.x[node] - across.start) / (across.end - across.start)) * width,
      ((up.end - graph.y[node]) / (up.end - up.start)) * height,
    ]]));
    const discs = order.map((node) => {
      const [[x, y], half] = [screen.get(node), size_of(node) / 2];
      return [x - half, y - half, x + half, y + half, node];
    });
    const columns = {x: [], y: [], text: [], dx: [], dy: [], align: []};
    const taken = [];
    for (const node of order) {
      const [x, y] = screen.get(node);
      const long = pen.measureText(graph.labels[node]).width;
      const away = size_of(node) / 2 + 3;
      const others = neighbours[node]
        .filter((edge) => shown_edges.has(edge))
        .map((edge) => [screen.get(edges.source[edge] === node ? edges.target[edge] : edges.source[edge]), sizes[edge]]);
      const free = [];
      for (const degrees of [0, 180, 90, 270, 45, 135, 225, 315]) {
        const [right, above] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
        const [dx, dy] = [away * right, -(away + 6 * Math.abs(above)) * above];
        const align = Math.abs(right) < 0.01 ? "center" : right > 0 ? "left" : "right";
        const left = x + dx - {left: 0, center: long / 2, right: long}[align];
        const box = [left, y + dy - 8, left + long, y + dy + 8];
        if (box[0] < 0 || box[2] > width || box[1] < 0 || box[3] > height) continue;
        const meets = ([l, t, r, b, whose]) => whose !== node && box[0] < r && box[2] > l && box[1] < b && box[3] > t;
        if (taken.some(meets) || discs.some(meets)) continue;
        free.push({box, dx, dy, align, crossed: others.reduce((sum, [other, size]) => sum + (crosses([x, y], other, box) ? size : 0), 0)});
      }
      if (!free.length) continue;
      const {box, dx, dy, align} = free.reduce((best, each) => (each.crossed < best.crossed ? each : best));
      taken.push(box);
      const values = [graph.x[node], graph.y[node], graph.labels[node], dx, dy, align];
      Object.keys(columns).forEach((column, place) => columns[column].push(values[place]));
    }
    model("graph-labels").data = columns;
  }

  function show() {
    const shown = sizes.map((_, edge) => edge).filter(is_shown).reverse(); // the strongest are drawn last
    const linked = new Set(shown.flatMap((edge) => [edges.source[edge], edges.target[edge]]));
    const [drawn, middle] = edge_columns(shown);
    model("graph-edges").data = drawn;
    model("graph-middles").data = middle;
    model("graph-nodes").data = node_columns(linked);
    const alone = graph.degrees.flatMap((links, node) => (links || hidden.has(node) ? [] : [node]));
    shown_edges = new Set(shown);
    labelled = new Set([...linked, ...state.found, ...(state.chosen < 0 ? alone : [])]);
    if (state.chosen >= 0) labelled.add(state.chosen);
    place_labels();
    element("graph-shown").textContent = `${shown.length} of ${plural(graph.n_edges, "link")} shown`;
    element("graph-chosen").textContent = describe_chosen(shown);
  }

  function describe_chosen(shown) {
    if (state.chosen < 0) return "";
    const links = [...shown].reverse().map((edge) => {
      const other = edges.source[edge] === state.chosen ? edges.target[edge] : edges.source[edge];
      return `${graph.names[other]} (${strength_of(edge, 2)})`;
    });
    const more = links.length > 12 ? ` and ${links.length - 12} more` : "";
    const named = links.length ? `: ${links.slice(0, 12).join(", ")}${more}` : "";
    return `${graph.names[state.chosen]} has ${plural(links.length, "link")} shown${named}.`;
  }

  // --- The reader's choices ---
  const list = element("graph-column");
  const by_name = graph.names.map((name, node) => [name, node]).sort(([a], [b]) => a.localeCompare(b, "en", {numeric: true}));
  for (const [name, node] of by_name) list.append(new Option(name, String(node)));

  function choose(node) {
    state.chosen = node;
    list.value = String(node);
    show();
  }
  list.addEventListener("change", () => choose(Number(list.value)));

  model("graph-nodes").selected.properties.indices.change.connect(() => {
    const [index] = model("graph-nodes").selected.indices;
    if (index === undefined) return;
    const node = model("graph-nodes").data.node[index];
    model("graph-nodes").selected.indices = [];
    choose(node === state.chosen ? -1 : node);
  });

  const strength = element("graph-strength");
  function set_strength() {
    state.least = (Number(strength.value) / 100) * strongest;
    const text = state.least.toFixed(2);
    strength.setAttribute("aria-valuetext", text);
    element("graph-strength-shown").textContent = text;
  }
  strength.addEventListener("input", () => { set_strength(); show(); });
  if (sizes.length > graph.at_first) strength.value = String(Math.ceil((100 * sizes[graph.at_first]) / strongest));
  set_strength();

  const q_value = element("graph-q");
  const rates = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1];
  function set_q() {
    state.most_q = rates[Number(q_value.value)];
    const text = state.most_q === 1 ? "any" : String(state.most_q);
    q_value.setAttribute("aria-valuetext", text);
    element("graph-q-shown").textContent = text;
  }
  if (q_value) {
    q_value.addEventListener("input", () => { set_q(); show(); });
    set_q();
  }

  const search = element("graph-search");
  search.addEventListener("input", () => {
    const words = search.value.trim().toLocaleLowerCase();
    const found = words ? by_name.filter(([name]) => name.toLocaleLowerCase().includes(words)).map(([, node]) => node) : [];
    state.found = new Set(found);
    element("graph-found").textContent = words ? `${plural(found.length, "column")} found` : "";
    show();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && state.found.size) choose([...state.found][0]);
  });

  function zoom(factor) {
    for (const range of [plot.x_range, plot.y_range]) {
      const [middle, half] = [(range.start + range.end) / 2, ((range.end - range.start) / 2) * factor];
      range.setv({start: middle - half, end: middle + half});
    }
  }
  element("graph-in").addEventListener("click", () => zoom(0.7));
  element("graph-out").addEventListener("click", () => zoom(1 / 0.7));
  element("graph-reset").addEventListener("click", () => {
    for (const range of [plot.x_range, plot.y_range]) range.setv({start: -1.08, end: 1.08});
    search.value = "";
    state.found = new Set();
    element("graph-found").textContent = "";
    choose(-1);
  });
  if (window.matchMedia("(pointer: coarse)").matches) plot.toolbar.active_drag = null; // a finger scrolls the page

  for (const each of [plot.x_range.properties.start, plot.y_range.properties.start, plot.properties.inner_width]) {
    each.change.connect(place_labels);
  }
  element("graph-controls").hidden = false;
  show();
})();
