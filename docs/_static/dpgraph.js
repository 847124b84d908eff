// Tables that are wider than the window scroll, and so they must be reached by Tab.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".pst-scrollable-table-container > table")) table.tabIndex = 0;
});

// An empty corner of a table heads nothing, and so it is a cell.
document.addEventListener("DOMContentLoaded", () => {
  for (const header of document.querySelectorAll("thead th")) {
    if (!header.textContent.trim()) header.replaceWith(document.createElement("td"));
  }
});

// The gallery hides the name of each figure's link, and lays its title over it.
document.addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) link.ariaLabel = link.textContent.trim();
});
