// Tables that are wider than the window scroll, and so they must be reached by Tab.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".pst-scrollable-table-container > table")) table.tabIndex = 0;
});
