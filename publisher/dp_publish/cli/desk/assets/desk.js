"use strict";
// The desk's form: what is changed is sent to the desk's own server on this machine, which says what becomes of it.
(() => {
  const KEPT = "dpgraph-desk"; // the secret of this session, and nothing of the table
  const by_id = (id) => document.getElementById(id);
  const notice = (text) => { by_id("notice").textContent = text; by_id("notice").className = text ? "warning" : ""; };
  let asked = 0, answered = 0, timer = 0, watching = false, closed = false, dirty = false, key = "";

  async function ask(what, sent = {}) {
    const headers = {"Content-Type": "application/json", Authorization: `Bearer ${sessionStorage.getItem(KEPT) || ""}`};
    try {
      const reply = await fetch(`/${what}`, {method: "POST", headers, body: JSON.stringify(sent)});
      return await reply.json();
    } catch {
      closed = true;
      return {error: "The desk is closed: start dp-publish desk again. What was not saved is gone."};
    }
  }

  // --- The form, and what is said of it ---
  const fields = () => Object.fromEntries(Array.from(new FormData(by_id("form")), ([name, value]) => [name, String(value)]));
  const sent = () => {
    const all = fields();
    document.querySelectorAll("#form input[type=checkbox]").forEach((box) => { if (!box.checked) all[box.name] = ""; });
    return all;
  };

  function fit() {
    document.querySelectorAll("[data-with]").forEach((part) => {
      const [name, value] = part.dataset.with.split(" ");
      part.hidden = fields_now.get(name) !== value;
    });
    document.querySelectorAll("[data-column]").forEach((column) => {
      const kind = fields_now.get(`${column.dataset.column}kind`) || "";
      column.querySelectorAll("[data-kinds]").forEach((part) => { part.hidden = !part.dataset.kinds.split(" ").includes(kind); });
    });
  }
  let fields_now = new Map();
  const read = () => { fields_now = new Map(Object.entries(sent())); fit(); };

  function show(state) {
    for (const [id, html] of Object.entries(state.parts || {})) {
      const part = by_id(id);
      if (part.innerHTML !== html) part.innerHTML = html; // our own server's, and escaped there
    }
    if (!state.parts) return;
    if (state.reading !== by_id("reading").value) { refill(); return; }
    document.querySelectorAll(".objection:not([hidden])").forEach((each) => { each.hidden = true; each.textContent = ""; });
    document.querySelectorAll("[aria-invalid]").forEach((each) => each.removeAttribute("aria-invalid"));
    for (const [id, text] of Object.entries(state.columns)) {
      const part = by_id(id);
      if (part.textContent !== text) part.textContent = text;
      part.classList.remove("against");
    }
    for (const [field, text] of Object.entries(state.objections)) {
      const says = by_id(`${field}-says`);
      if (!says) continue;
      says.hidden = false;
      says.textContent = text;
      says.closest("details[id]")?.setAttribute("open", "");
      by_id(field)?.setAttribute("aria-invalid", "true");
      const column = says.closest("[data-column]");
      const mark = column && by_id(`${column.dataset.column}state`);
      if (mark) { mark.textContent = "something stands in the way"; mark.classList.add("against"); }
    }
    by_id("insisting").hidden = !state.refused && !by_id("anyway").checked;
    dirty = state.dirty;
    key = state.key;
    if (by_id("asking").open && by_id("asking").dataset.key !== key) {
      by_id("asking").close();
      notice("What is in the form changed since you were asked: look at it again.");
    }
    if (state.position !== null && document.activeElement !== by_id("slider")) by_id("slider").value = state.position;
    document.querySelector('[data-do="ask"]').disabled = !state.publishable;
    document.querySelector('[data-do="save"]').disabled = !state.savable;
  }

  const waits = (is) => by_id("promise").setAttribute("aria-busy", String(is)); // for the answer to what was changed last

  async function check() {
    clearTimeout(timer);
    timer = 0;
    waits(true);
    read();
    const number = ++asked;
    const state = await ask("check", Object.fromEntries(fields_now));
    if (number < answered) return; // a later one was faster
    answered = number;
    if (state.error) { // what is shown is of an earlier form
      notice(state.error);
      document.querySelectorAll('[data-do="ask"], [data-do="save"]').forEach((button) => { button.disabled = true; });
    } else { notice(""); show(state); }
    if (number === asked && !timer) waits(false);
  }
  const soon = () => { waits(true); clearTimeout(timer); timer = setTimeout(check, 120); };

  // --- What is being done ---
  async function watch() {
    if (watching) return;
    watching = true;
    by_id("work").hidden = false;
    for (let running = true; running && !closed;) {
      const state = await ask("work");
      if (state.error) { notice(state.error); break; }
      if (by_id("working").innerHTML !== state.html) by_id("working").innerHTML = state.html;
      running = state.running;
      if (running) await new Promise((resolve) => setTimeout(resolve, 400));
      else {
        if (document.activeElement === by_id("work-title")) by_id("work").scrollIntoView(); // she began it, and waits
        check();
      }
    }
    watching = false;
  }

  async function begin(what, more = {}) {
    const state = await ask(what, {...sent(), ...more});
    if (state.error) { notice(state.error); by_id("notice").scrollIntoView(); return; }
    notice("");
    watch();
    by_id("work-title").focus();
  }

  const actions = {
    save: async () => {
      const state = await ask("save", sent());
      by_id("done").textContent = state.error || state.done;
      show(state);
    },
    ask: async () => {
      await check();
      if (document.querySelector('[data-do="ask"]').disabled) return;
      by_id("asking").dataset.key = key;
      by_id("asking").showModal();
    },
    back: () => by_id("asking").close(),
    publish: () => { by_id("asking").close(); begin("publish", {confirmed: by_id("asking").dataset.key}); },
    plan: () => begin("plan"),
    look: () => begin("look"),
    audit: () => begin("audit"),
    cancel: () => ask("cancel"),
    close: async () => {
      if ((dirty || watching) && !confirm("What was not saved is lost, and what is being done is cancelled. Close the desk?")) return;
      await ask("close");
      dirty = false;
      closed = true;
      sessionStorage.removeItem(KEPT);
      by_id("desk").replaceChildren();
      notice("The desk is closed. You can close this tab.");
    },
  };

  window.addEventListener("beforeunload", (event) => { if (dirty && !closed) event.preventDefault(); });

  function attach() {
    const form = by_id("form");
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      const slider = by_id("slider");
      by_id("done").textContent = "";
      if (event.target.id === "find") { filter(event.target.value); return; }
      if (event.target === slider) {
        const [low, high] = [Number(slider.dataset.low), Number(slider.dataset.high)];
        by_id("privacy-mu").value = String(Number((low * (high / low) ** (slider.value / slider.max)).toPrecision(3)));
      }
      read();
      soon();
    });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) actions[button.dataset.do]();
    const link = event.target.closest("[data-field]");
    if (link) { event.preventDefault(); lead_to(link.dataset.field); }
  });

  function lead_to(field) {
    const target = by_id(field) || document.querySelector(`[name="${CSS.escape(field)}"]`);
    if (!target) return;
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    target.closest("[hidden]")?.removeAttribute("hidden");
    target.focus();
  }

  function filter(words) {
    const wanted = words.toLocaleLowerCase();
    by_id("all-columns").open = true;
    let shown = 0;
    document.querySelectorAll(".columns-of > li").forEach((line) => {
      line.hidden = !line.querySelector("summary").textContent.toLocaleLowerCase().includes(wanted);
      shown += !line.hidden;
    });
    by_id("found").textContent = `${shown} columns`;
  }

  // --- The beginning, and whenever the file is read in another way, so that it has other columns ---
  function fill(state) {
    notice("");
    by_id("desk").innerHTML = state.html; // our own server's, and escaped there
    attach();
    read();
    show(state);
  }

  async function refill() {
    const at = document.activeElement?.id;
    const opened = Array.from(document.querySelectorAll("details[id][open]"), (each) => each.id);
    const state = await ask("page");
    if (state.error) { notice(state.error); return; }
    fill(state);
    opened.forEach((id) => { by_id(id).open = true; });
    by_id(at)?.focus();
  }

  async function enter() {
    const token = location.hash.slice(1);
    if (!token) return;
    history.replaceState(null, "", "/"); // so that the address is in no history
    const reply = await ask("enter", {token});
    if (reply.secret) sessionStorage.setItem(KEPT, reply.secret);
  }

  async function start() {
    await enter();
    for (;;) {
      const state = await ask("page");
      if (state.error) { notice(state.error); return; }
      if (state.html) {
        fill(state);
        const work = await ask("work");
        if (work.html) watch();
        return;
      }
      by_id("notice").textContent = `Reading the table, once: ${state.opening} s so far.`;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
  start();
})();
