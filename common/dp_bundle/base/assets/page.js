"use strict";
// Tables that can be sorted and filtered, light and dark colours, and the figures. What it offers to other scripts is in
// `dpgraph`: `data`, `dark()`, and `ready`, a promise of the figures' models by name.
const dpgraph = (() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const dark_of = read("palette");

  // --- Tables ---
  const value_of = (cell, numeric) => {
    if (!numeric) return cell.textContent;
    return cell.dataset.order ? Number(cell.dataset.order) : NaN;
  };

  function sort(table, place, direction) {
    const body = table.tBodies[0];
    const numeric = table.tHead.rows[0].cells[place].classList.contains("number");
    const keyed = Array.from(body.rows, (row) => [value_of(row.cells[place], numeric), row]);
    const order = direction === "ascending" ? 1 : -1;
    keyed.sort(([first], [second]) => {
      if (!numeric) return order * first.localeCompare(second, "en", {numeric: true});
      if (Number.isNaN(first) || Number.isNaN(second)) return Number.isNaN(first) - Number.isNaN(second);
      return order * (first - second);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  function make_sortable(table) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const direction = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", direction);
        sort(table, place, direction);
      });
    });
  }

  function filter(input) {
    const rows = Array.from(document.getElementById(input.dataset.table).querySelector("tbody").rows);
    const words = input.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLocaleLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    const count = document.getElementById(`${input.dataset.table}-count`);
    count.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
  }

  document.querySelectorAll(".table table").forEach(make_sortable);
  document.querySelectorAll(".filter").forEach((line) => {
    line.hidden = false;
    line.querySelector("input").addEventListener("input", (event) => filter(event.target));
  });

  // --- Light and dark ---
  const KEPT = "dpgraph-colours";
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("scheme");
  let chosen = null;
  try {
    chosen = window.localStorage.getItem(KEPT);
  } catch (error) {
    chosen = null; // a page from a disk may have no storage
  }

  const dark = () => (chosen === null ? preferred.matches : chosen === "dark");

  function show_scheme() {
    if (chosen !== null) document.documentElement.dataset.scheme = chosen;
    button.setAttribute("aria-pressed", String(dark()));
    recolour();
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    chosen = dark() ? "light" : "dark";
    try {
      window.localStorage.setItem(KEPT, chosen);
    } catch (error) {
      // then it holds until the page is left
    }
    show_scheme();
  });
  preferred.addEventListener("change", show_scheme);

  // --- Figures ---
  const coloured = []; // what has a partner: a model, its property, and the values on light and on dark paper

  const partner = (colour) => (typeof colour === "string" ? dark_of[colour.toLowerCase()] : undefined);

  function on_dark(value) {
    if (Array.isArray(value)) return value.some(partner) ? value.map((each) => partner(each) ?? each) : undefined;
    if (typeof value === "string") return partner(value);
    const swapped = partner(value?.value);
    return swapped && {...value, value: swapped};
  }

  function find_coloured(roots) {
    for (const model of new Set(roots.flatMap((root) => Array.from(root.references())))) {
      for (const property of model) {
        if (!/color|palette/.test(property.attr)) continue;
        const light = property.get_value();
        const dark = on_dark(light);
        if (dark !== undefined) coloured.push([model, property.attr, light, dark]);
      }
    }
  }

  function recolour() {
    const drawn = dark() ? "dark" : "light";
    for (const [model, name, ...pair] of coloured) model.setv({[name]: pair[drawn === "dark" ? 1 : 0]});
    document.documentElement.dataset.drawn = drawn; // paper is printed white: the style then inverts what is drawn dark
  }

  async function draw() {
    const found = read("figures");
    if (found === null) return {};
    const render = [{docid: "figures", roots: found.roots, root_ids: Object.keys(found.roots)}];
    const managers = await Bokeh.embed.embed_items({figures: found.document}, render);
    const views = managers.flatMap((manager) => Array.from(manager.roots ?? [manager]));
    const roots = views.map((view) => view.model);
    find_coloured(roots);
    recolour();
    return Object.fromEntries(roots.map((root) => [found.roots[root.id], root]));
  }

  show_scheme();
  return {data: read("data"), dark, ready: draw()};
})();
