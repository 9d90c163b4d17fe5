"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  for (const head of table.querySelectorAll("th[data-key]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => parseFloat(row.dataset[head.dataset.key] ?? "NaN");
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
        rows.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
          return down ? y - x : x - y;
        });
        body.append(...rows);
      }
    });
  }
}
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not(#other-models details)")) one.open = true;
});
