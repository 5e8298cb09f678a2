// Sorts tables by a click on a column's header. The page is complete without it.
"use strict";

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    if (!head.hasAttribute("data-sort")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isDown = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const isText = head.dataset.sort === "text";
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const order = (a, b) => {
        const [first, second] = [value(a), value(b)];
        if (first === "" || second === "") return (first === "") - (second === ""); // missing values last
        const less = isText ? first.localeCompare(second) : Number(first) - Number(second);
        return isDown ? -less : less;
      };
      body.append(...Array.from(body.rows).sort(order));
    });
  });
}
