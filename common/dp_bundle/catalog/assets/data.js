"use strict";
// The links of a release, narrowed to a column and a strength, in the table and in the picture; lines that are copied.
{
  const form = document.getElementById("narrow");
  const table = document.querySelector("#links-table table");
  const least = document.getElementById("narrow-least");
  const column = document.getElementById("narrow-column");
  const says = document.getElementById("narrow-count");

  function narrow(links) {
    const shown = links.filter((link) => {
      const fits = !column.value || link.ends.includes(column.value);
      link.row.hidden = !(fits && link.strength >= Number(least.value));
      link.line?.classList.toggle("away", link.row.hidden);
      return !link.row.hidden;
    });
    document.getElementById("narrow-said").textContent = Number(least.value).toFixed(2);
    const counted = shown.length === links.length ? `${links.length}` : `${shown.length} of ${links.length}`;
    const beside = shown.map((link) => `${link.ends.find((end) => end !== column.value)} (${link.weight})`);
    const neighbours = column.value && shown.length ? `, of ${column.value} with ${beside.join(", ")}` : "";
    const what = links.length === 1 ? form.dataset.what.slice(0, -1) : form.dataset.what;
    says.textContent = `${counted} ${what}${neighbours}`;
  }

  if (form) {
    const lines = document.querySelectorAll(".network .link");
    const links = Array.from(table.tBodies[0].rows, (row, place) => ({
      row,
      line: lines[place],
      ends: [row.cells[0].textContent, row.cells[1].textContent],
      weight: row.cells[2].textContent,
      strength: Math.abs(row.cells[2].dataset.order),
    }));
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => narrow(links));
    narrow(links);
  }

  async function copy(button) {
    const lines = button.parentElement.querySelector("pre");
    window.getSelection().selectAllChildren(lines); // stays where the browser lets no page write to the clipboard
    try {
      await navigator.clipboard.writeText(lines.textContent);
      button.textContent = "Copied";
    } catch (error) {
      button.textContent = "Selected";
    }
  }

  document.querySelectorAll(".copy").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  });
}
