"use strict";
// The list of datasets: shown by words and choices, in the order that was chosen.
{
  const form = document.getElementById("finder");
  const list = document.getElementById("list");
  const count = document.getElementById("count");
  const cards = Array.from(list.children, (item, place) => ({
    item,
    place, // the list comes with the newest first
    text: item.textContent.toLocaleLowerCase(),
    title: item.querySelector("h3").textContent,
  }));
  const choices = ["protects", "kind", "signer"].map((name) => document.getElementById(name));
  const words = document.getElementById("words");
  const order = document.getElementById("order");
  const compare = {
    date: (one, other) => one.place - other.place,
    title: (one, other) => one.title.localeCompare(other.title) || one.place - other.place,
    right: (one, other) => one.item.dataset.right - other.item.dataset.right || one.place - other.place,
  };

  function show() {
    const sought = words.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const {item, text} of cards) {
      const chosen = choices.every((choice) => !choice.value || item.dataset[choice.id] === choice.value);
      item.hidden = !(chosen && sought.every((word) => text.includes(word)));
      shown += !item.hidden;
    }
    const named = cards.length === 1 ? "dataset" : "datasets";
    count.textContent = shown === cards.length ? `${shown} ${named}` : `${shown} of ${cards.length} ${named}`;
  }

  function sort() {
    list.append(...cards.toSorted(compare[order.value]).map(({item}) => item));
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  words.addEventListener("input", show);
  choices.forEach((choice) => choice.addEventListener("change", show));
  order.addEventListener("change", sort);
}
