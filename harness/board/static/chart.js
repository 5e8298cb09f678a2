// Draws the quality curves of the rows that a reader chooses, as harness/board/charts/lines.py draws those of the first
// eight. The curves of a result are in data/NAME.js: a page opened from a file may load a script, but no data.
"use strict";

const tta = {
  maxChosen: 8, // as many as the table shows first
  size: [560, 330],
  results: new Map(), // name -> a promise of the result, as harness/board/compare.py describes it
  waiting: new Map(),
  take(name, result) {
    tta.waiting.get(name)(result);
  },
  load(name) {
    if (!tta.results.has(name)) {
      tta.results.set(name, new Promise((resolve, reject) => {
        tta.waiting.set(name, resolve);
        const script = make("script", { src: `../data/${encodeURIComponent(name)}.js` });
        script.addEventListener("error", () => reject(new Error(`${script.src} cannot be loaded`)));
        document.head.append(script);
      }));
    }
    return tta.results.get(name);
  },

  svg(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  },
  swatch(style) {
    const line = tta.svg("line", { class: `line ${style}`, x1: 1, x2: 25, y1: 5, y2: 5 });
    return tta.svg("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true" }, line);
  },
  ticks(low, high, about) {
    const rough = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [[1, 1.5], [2, 3.5], [5, 7.5], [10, Infinity]].find(([, upTo]) => rough < upTo * power)[0];
    const found = [];
    for (let number = Math.ceil(low / step - 1e-9); number <= high / step + 1e-9; number += 1) found.push(number * step);
    return found;
  },
  number: (value, digits = 4) =>
    value === null || value === undefined
      ? "–"
      : Math.abs(value) >= 10 ** digits
        ? Math.round(value).toLocaleString("en")
        : Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits }),

  // series: [{ name, style, curves: [{ name, is_hit, points }] }]
  chart(title, series, quality, target, limits, xName) {
    const [width, height, left, right, top, bottom] = [...tta.size, 68, 12, 14, 54];
    const points = series.flatMap((one) => one.curves.flatMap((curve) => curve.points));
    if (!points.length) return make("p");
    const ys = points.map((point) => point[1]).concat(target === null ? [] : [target]);
    let [low, high] = [Math.min(...ys), Math.max(...ys)];
    const pad = high > low ? (high - low) * 0.08 : Math.abs(low) / 10 || 1;
    [low, high] = [low - pad, high + pad];
    if (limits) [low, high] = [Math.max(low, Math.min(limits[0], ...ys)), Math.min(high, Math.max(limits[1], ...ys))];
    const end = Math.max(...points.map((point) => point[0])) * 1.05 || 1;
    const x = (value) => left + (value / end) * (width - right - left);
    const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - bottom - top);
    const text = (kind, at, words, more = {}) => tta.svg("text", { class: kind, x: at[0], y: at[1], ...more }, words);
    const body = [tta.svg("title", {}, title)];
    for (const value of tta.ticks(low, high, 5)) {
      body.push(tta.svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      if (target === null || Math.abs(y(value) - y(target)) >= 16)
        body.push(text("tick", [left - 8, y(value)], tta.number(value), { "text-anchor": "end", dy: "0.32em" }));
    }
    for (const value of tta.ticks(0, end, 6)) {
      body.push(tta.svg("line", { class: "grid", x1: x(value), x2: x(value), y1: top, y2: height - bottom }));
      body.push(text("tick", [x(value), height - bottom + 19], tta.number(value), { "text-anchor": "middle" }));
    }
    body.push(tta.svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
    body.push(text("axis-name", [(left + width - right) / 2, height - 12], xName, { "text-anchor": "middle" }));
    const turned = `translate(8 ${(top + height - bottom) / 2}) rotate(-90)`;
    body.push(tta.svg("text", { class: "axis-name", transform: turned, "text-anchor": "middle" }, quality));
    if (target !== null) {
      body.push(tta.svg("line", { class: "target", x1: left, x2: width - right, y1: y(target), y2: y(target) }));
      const end = { "text-anchor": "end", dy: "0.32em" };
      body.push(text("tick target-tick", [left - 8, y(target)], tta.number(target), end));
    }
    for (const one of series)
      for (const curve of one.curves.filter((each) => each.points.length)) {
        const places = curve.points.map((point) => `${x(point[0]).toFixed(2)},${y(point[1]).toFixed(2)}`);
        const [lastX, lastY] = places[places.length - 1].split(",");
        body.push(tta.svg("g", {},
          tta.svg("title", {}, `${one.name}, ${curve.name}`),
          tta.svg("polyline", { class: `line ${one.style}`, points: places.join(" ") }),
          curve.is_hit
            ? tta.svg("circle", { class: `end ${one.style}`, cx: lastX, cy: lastY, r: 3 })
            : tta.svg("path", { class: "miss", transform: `translate(${lastX} ${lastY})`, d: "M-3.5-3.5 3.5 3.5M-3.5 3.5 3.5-3.5" })));
      }
    const label = `${title}: ${series.map((one) => one.name).join("; ")}`;
    return tta.svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...body);
  },
};

// figure.curves[data-table]: the chart of the table with that id, whose rows have data-key, the name of their data.
for (const figure of document.querySelectorAll("figure.curves[data-table]")) {
  const table = document.getElementById(figure.dataset.table);
  const rows = Array.from(table.tBodies[0].rows);
  const chosen = new Map(rows.filter((row) => row.querySelector(".pick svg")).map((row, style) => [row.dataset.key, style]));
  const status = make("p", { className: "small soft" });
  status.setAttribute("role", "status");
  const link = make("a", { className: "button", hidden: true }, "Compare these two");
  const boxes = new Map();
  let drawn = figure.querySelector("svg.chart");
  let latest = 0;

  async function draw() {
    const number = (latest += 1);
    for (const row of rows) {
      const style = chosen.get(row.dataset.key);
      const box = boxes.get(row.dataset.key);
      box.checked = style !== undefined;
      box.nextElementSibling.replaceChildren(...(style === undefined ? [] : [tta.swatch(`s${style}`)]));
    }
    const names = Array.from(chosen.keys());
    link.hidden = names.length !== 2;
    link.href = `${figure.dataset.compare}#${names.map(encodeURIComponent).join("&")}`;
    status.textContent = names.length === 2 ? "" : `${names.length} of at most ${tta.maxChosen} results chosen. Two can be compared.`;
    const results = await Promise.all(names.map((name) => tta.load(name)));
    if (number !== latest) return;
    const all = results.map((result, index) => ({
      name: `${result.submitter}, ${result.system}`,
      style: `s${chosen.get(names[index])}`,
      curves: result.curves,
      position: result.position,
    }));
    const series = all.filter((one) => one.position === all[0].position); // a chart has one axis
    let next = tta.svg("svg", { class: "chart", viewBox: `0 0 ${tta.size.join(" ")}`, "aria-hidden": "true" });
    if (results.length) {
      const { quality, target, limits, position } = results[0];
      next = tta.chart("Quality over time", series, quality, target, limits, position);
      figure.querySelector(".chosen-words").textContent = `Quality of every run of the chosen results, over ${position}`;
    }
    drawn.replaceWith(next);
    drawn = next;
    if (series.length < all.length) {
      const others = all.filter((one) => !series.includes(one)).map((one) => one.name);
      status.append(` Not in the chart, because their evaluations are not over ${all[0].position}: ${others.join("; ")}.`);
    }
    const items = series.map((one) => make("li", {}, tta.swatch(one.style), make("span", {}, one.name)));
    figure.querySelector(".names").replaceChildren(...items);
  }
  const choose = (row) => {
    const free = Array.from({ length: tta.maxChosen }, (_, style) => style).find((style) => !Array.from(chosen.values()).includes(style));
    if (free !== undefined) chosen.set(row.dataset.key, free);
    return free !== undefined;
  };
  for (const row of rows) {
    const box = make("input", { type: "checkbox", checked: chosen.has(row.dataset.key) });
    box.setAttribute("aria-label", `${row.dataset.submitter}, ${row.dataset.system}: show in the chart`);
    box.addEventListener("change", () => {
      if (!box.checked) chosen.delete(row.dataset.key);
      else if (!choose(row)) {
        box.checked = false;
        status.textContent = `The chart shows at most ${tta.maxChosen} results: take one out first.`;
        return;
      }
      draw();
    });
    boxes.set(row.dataset.key, box);
    const label = make("label", {}, box, make("span", {}, ...row.querySelectorAll(".pick svg")));
    row.querySelector(".pick > span").replaceChildren(label);
  }
  const button = (words, pick) => {
    const found = make("button", { type: "button", className: "pick" }, words);
    found.addEventListener("click", () => {
      chosen.clear();
      pick().forEach(choose);
      draw();
    });
    return found;
  };
  const shown = () => Array.from(table.tBodies[0].rows).filter((row) => !row.hidden).slice(0, tta.maxChosen);
  const buttons = [button("Chart the first eight rows", shown), " ", button("None", () => []), " ", link];
  figure.querySelector("figcaption").append(make("div", { className: "chosen" }, ...buttons, status));
}
