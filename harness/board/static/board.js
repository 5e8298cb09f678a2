// Sorts, filters and shortens tables. The page is complete without it: every row is in its HTML.
//
// table.sortable: a click on a column's header sorts by `data-value` of its cells, else by their text. Missing values
//   come last in both directions, before them cells with `data-unranked`, in the order of the page. Cells that differ
//   in `data-group` are never compared: groups follow each other.
// table.ranks with more than 8 rows shows the first ones, and a button for the others.
// div.filters[data-filters="name=Label;…"]: a search and a choice for each `data-name` of the page's rows that differs.
"use strict";

const LIMIT = 8;
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
};

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  const place = new Map(Array.from(table.tBodies[0].rows, (row, index) => [row, index]));
  heads.forEach((head, column) => {
    if (!head.hasAttribute("data-sort")) return;
    const button = make("button", { type: "button", className: "sort" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isDown = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const isText = head.dataset.sort === "text";
      const key = (row) => {
        const cell = row.cells[column];
        const value = cell.dataset.value ?? cell.textContent.trim();
        const tier = value === "" ? 2 : "unranked" in cell.dataset ? 1 : 0;
        return { value, tier, group: cell.dataset.group ?? "", place: place.get(row) };
      };
      const order = (a, b) => {
        if (a.tier !== b.tier || a.tier > 0) return a.tier - b.tier || a.place - b.place;
        if (a.group !== b.group) return a.group < b.group ? -1 : 1;
        const less = isText ? a.value.localeCompare(b.value) : Number(a.value) - Number(b.value);
        return (isDown ? -less : less) || a.place - b.place;
      };
      const rows = Array.from(place.keys(), (row) => [key(row), row]).sort((a, b) => order(a[0], b[0]));
      table.tBodies[0].append(...rows.map((pair) => pair[1]));
      table.dispatchEvent(new Event("reordered"));
    });
  });
}

// Whether a row passes the filters of the page; those without filters pass.
let passes = () => true;
const refreshers = [];
const refreshAll = () => refreshers.reduce((total, refresh) => total + refresh(), 0);

for (const table of document.querySelectorAll("table.ranks:not(.leads)")) {
  const box = table.parentElement;
  const button = make("button", { type: "button", className: "more" });
  let isWhole = false;
  const refresh = () => {
    const rows = Array.from(table.tBodies[0].rows);
    const found = rows.filter(passes);
    const shown = new Set(isWhole ? found : found.slice(0, LIMIT));
    for (const row of rows) {
      row.hidden = !shown.has(row);
      document.getElementById(row.dataset.point)?.classList.toggle("off", row.hidden); // its point in a chart
    }
    button.textContent = isWhole ? `Show the first ${LIMIT}` : `Show all ${found.length} rows`;
    button.hidden = found.length <= LIMIT;
    box.classList.toggle("tall", shown.size > LIMIT);
    box.classList.toggle("fits", table.offsetWidth <= box.clientWidth); // then the head stays on the page, not in a box
    return found.length;
  };
  button.addEventListener("click", () => {
    isWhole = !isWhole;
    refresh();
    if (!isWhole) box.scrollIntoView({ block: "nearest" });
  });
  table.addEventListener("reordered", refresh);
  box.after(button);
  addEventListener("resize", refresh);
  refreshers.push(refresh);
  refresh();
}

for (const bar of document.querySelectorAll("div.filters")) {
  const rows = Array.from(document.querySelectorAll("table.ranks tbody tr[data-submitter]"));
  if (rows.length <= LIMIT) continue;
  const search = make("input", { type: "search", autocomplete: "off" });
  const controls = make("div", { className: "controls" }, make("label", {}, "Search ", search));
  const choices = [];
  for (const [name, label] of bar.dataset.filters.split(";").map((pair) => pair.split("="))) {
    const values = Array.from(new Set(rows.map((row) => row.dataset[name] ?? ""))).filter((value) => value !== "");
    if (values.length < 2) continue;
    values.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const isDate = name === "date";
    if (isDate) values.reverse();
    const select = make("select", {}, new Option(isDate ? "any time" : "all", ""), ...values.map((value) => new Option(value)));
    choices.push((row) => {
      const value = row.dataset[name] ?? "";
      return select.value === "" || (isDate ? value >= select.value : value === select.value);
    });
    controls.append(make("label", {}, `${label} `, select));
  }
  const clear = make("button", { type: "button", className: "clear" }, "Clear");
  const status = make("p", { className: "small soft" });
  status.setAttribute("role", "status");
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const texts = (row) => `${row.textContent} ${Object.values(row.dataset).join(" ")}`.toLowerCase();
    passes = (row) => choices.every((choice) => choice(row)) && words.every((word) => texts(row).includes(word));
    const count = refreshAll();
    status.textContent = `${count} of ${rows.length} results`;
  };
  clear.addEventListener("click", () => {
    for (const control of controls.querySelectorAll("input, select")) control.value = "";
    apply();
  });
  controls.append(clear);
  controls.addEventListener("input", apply);
  const details = make("details", { open: matchMedia("(min-width: 721px)").matches });
  details.append(make("summary", {}, "Search and filter"), controls, status);
  bar.append(details);
  bar.setAttribute("role", "search");
  apply();
}
