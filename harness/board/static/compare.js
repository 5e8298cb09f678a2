// Compares two results of a benchmark, as `tta compare` does: `compare.html#NAME&NAME`. See harness/board/compare.py.
"use strict";

// Student's t for whole degrees of freedom, as in harness/base/stats.py.
const stats = {
  within(angle, dof) {
    const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
    let [term, total] = dof % 2 ? [cosine, 0] : [1, 0];
    for (let k = dof % 2 ? 3 : 2; k <= dof; k += 2) {
      total += term;
      term *= (cosine ** 2 * (k - 1)) / k;
    }
    return dof % 2 ? (2 / Math.PI) * (angle + sine * total) : sine * total;
  },
  variance: (errors) => errors.reduce((sum, [variance]) => sum + variance, 0),
  dof(errors) {
    const weights = errors.reduce((sum, [variance, dof]) => sum + variance ** 2 / dof, 0);
    const dof = weights > 0 ? stats.variance(errors) ** 2 / weights : Math.min(...errors.map((error) => error[1]));
    return Math.max(1, Math.min(1000, Math.floor(dof * (1 + 1e-12))));
  },
  quantile(dof, share) {
    let [low, high] = [0, Math.PI / 2];
    for (let step = 0; step < 60; step += 1) {
      const middle = (low + high) / 2;
      if ((1 + stats.within(middle, dof)) / 2 < share) low = middle;
      else high = middle;
    }
    return Math.tan(high) * Math.sqrt(dof);
  },
  // The ratio of two amounts: its 95 % interval, and the probability of a difference at least this large between equal amounts.
  compare(a, b) {
    if (!a.errors.length || !b.errors.length) return { interval: null, p: 1 };
    const errors = a.errors.concat(b.errors);
    const [variance, dof, log] = [stats.variance(errors), stats.dof(errors), Math.log(a.value / b.value)];
    const half = stats.quantile(dof, 0.975) * Math.sqrt(variance);
    const t = Math.abs(log) / Math.sqrt(variance);
    const p = variance === 0 ? Number(log === 0) : Math.max(0, 1 - stats.within(Math.atan(t / Math.sqrt(dof)), dof));
    return { interval: [Math.exp(log - half), Math.exp(log + half)], p };
  },
};

const page = document.getElementById("compare");
if (page) {
  const known = Array.from(document.querySelectorAll("#results a[data-key]"));
  const cell = (words, kind = "number") => make("td", { className: kind }, words);
  const head = (...words) =>
    make("thead", {}, make("tr", {}, ...words.map(([text, kind]) => make("th", { scope: "col", className: kind ?? "number" }, text))));
  const table = (label, heads, rows) => {
    const made = make("table", {}, heads, make("tbody", {}, ...rows));
    const box = make("div", { className: "scroll", tabIndex: 0 }, made);
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
    return box;
  };
  const options = (select) => {
    for (const division of new Set(known.map((link) => link.dataset.division))) {
      const group = make("optgroup", { label: `${division} division` });
      for (const link of known.filter((one) => one.dataset.division === division)) group.append(new Option(link.textContent, link.dataset.key));
      select.append(group);
    }
    return select;
  };
  const [first, second] = [options(make("select")), options(make("select"))];
  const output = make("div", {});
  const controls = make("div", { className: "controls" }, make("label", {}, "A ", first), make("label", {}, "B ", second));
  page.replaceChildren(controls, output);

  const amounts = (a, b) => a.amounts.map((one, index) => {
    const other = b.amounts[index];
    if (one.value === null && other.value === null) return null;
    const shown = (amount) => {
      if (amount.value === null) return cell(amount.note || "–");
      const range = amount.interval ? make("span", { className: "soft small below" }, `${tta.number(amount.interval[0])} – ${tta.number(amount.interval[1])}`) : null;
      return make("td", { className: "number" }, `${tta.number(amount.value, 5)} ${amount.unit}`, range);
    };
    const isApart = one.group !== null && other.group !== null && one.group !== other.group;
    const ratio = one.value > 0 && other.value > 0 && !isApart ? one.value / other.value : null;
    const isTested = ratio !== null && one.group !== null && other.group !== null;
    let [range, p, verdict] = ["–", "–", null];
    if (isTested) {
      const found = stats.compare(one, other);
      range = found.interval ? `${found.interval[0].toFixed(4)} – ${found.interval[1].toFixed(4)}` : "–";
      p = found.p < 1e-4 ? "< 0.0001" : found.p.toFixed(4);
      const lower = ratio < 1 ? `A is ${tta.number(100 * (1 - ratio), 2)} % lower` : `B is ${tta.number(100 * (1 - 1 / ratio), 2)} % lower`;
      verdict = found.p <= 0.05
        ? make("td", {}, make("span", { className: "chip valid" }, "significant"), ` ${lower}`)
        : make("td", {}, make("span", { className: "chip" }, "not significant"), " the runs cannot tell them apart");
    } else {
      const notes = Array.from(new Set([one, other].filter((item) => item.note && (isApart || item.group === null)).map((item) => item.note)));
      if (isApart) notes.unshift("not compared");
      verdict = make("td", { className: "soft" }, notes.join("; ") || "not compared");
    }
    return make("tr", {}, make("th", { scope: "row" }, one.name), shown(one), shown(other), cell(ratio === null ? "–" : ratio.toFixed(4)), cell(range), cell(p), verdict);
  }).filter(Boolean);

  const seconds = (value) => (value === undefined ? "–" : value.toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 }));
  const phases = (a, b) => {
    const names = Array.from(new Set([...Object.keys(a.phases), ...Object.keys(b.phases)]));
    const total = (side) => Object.values(side.phases).reduce((sum, value) => sum + value, 0);
    const longest = Math.max(total(a), total(b)) || 1;
    const bar = (side) => {
      let at = 0;
      const parts = Object.entries(side.phases).map(([name, value]) => {
        const part = tta.svg("rect", { class: `p-${name}`, x: (at / longest) * 500, y: 0, width: (value / longest) * 500, height: 18 },
          tta.svg("title", {}, `${name}: ${tta.number(value)} s`));
        at += value;
        return part;
      });
      return tta.svg("svg", { class: "chart bar", viewBox: "0 0 500 18", preserveAspectRatio: "none", role: "img", "aria-label": `Phases of ${side.system}` }, ...parts);
    };
    const key = (name) => tta.svg("svg", { class: "key", viewBox: "0 0 12 12", "aria-hidden": "true" }, tta.svg("rect", { class: `p-${name}`, width: 12, height: 12, rx: 2 }));
    const rows = names.map((name) => make("tr", {}, make("th", { scope: "row" }, key(name), ` ${name}`), cell(seconds(a.phases[name])), cell(seconds(b.phases[name]))));
    return [make("p", {}, "A ", bar(a)), make("p", {}, "B ", bar(b)), table("Phases", head(["Phase", ""], ["A, s"], ["B, s"]), rows)];
  };

  const settings = (a, b) => {
    const names = Array.from(new Set([...Object.keys(a.settings), ...Object.keys(b.settings)]));
    const differs = (name) => a.settings[name] !== b.settings[name];
    names.sort((one, other) => differs(other) - differs(one));
    return names.map((name) => make("tr", { className: differs(name) ? "changed" : "" },
      make("th", { scope: "row", className: "any" }, name, differs(name) ? make("span", { className: "chip here" }, "differs") : null),
      cell(a.settings[name] ?? "–", "any"), cell(b.settings[name] ?? "–", "any")));
  };

  async function show() {
    const [one, other] = [first.value, second.value];
    history.replaceState(null, "", `#${encodeURIComponent(one)}&${encodeURIComponent(other)}`);
    if (one === other) return output.replaceChildren(make("p", {}, "Choose two different results."));
    const [a, b] = await Promise.all([tta.load(one), tta.load(other)]);
    if (first.value !== one || second.value !== other) return undefined;
    if (a.division !== b.division || a.ruleset !== b.ruleset)
      return output.replaceChildren(make("p", {}, "Results of different divisions or rulesets cannot be compared."));
    const missing = [a, b].find((side) => side.why_not !== null);
    if (missing) return output.replaceChildren(make("p", {}, `${missing.submitter}, ${missing.system} has no score: ${missing.why_not}`));
    const title = (side) => `${side.submitter}, ${side.system}`;
    const link = (letter, side, name) => {
      const found = make("a", { href: known.find((item) => item.dataset.key === name).getAttribute("href") }, title(side));
      const faults = side.num_errors ? make("span", { className: "chip invalid" }, `not valid: ${side.num_errors} errors`) : null;
      return make("p", {}, make("b", {}, `${letter}: `), found, " ", faults);
    };
    const series = [{ name: `A: ${title(a)}`, style: "s0", curves: a.curves }, { name: `B: ${title(b)}`, style: "s3", curves: b.curves }];
    const legend = make("ul", { className: "legend" }, ...series.map((item) => make("li", {}, tta.swatch(item.style), make("span", {}, item.name))));
    if (a.target !== null) {
      const line = tta.svg("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true" }, tta.svg("line", { class: "target", x1: 1, x2: 25, y1: 5, y2: 5 }));
      legend.prepend(make("li", {}, line, make("span", {}, `target ${tta.number(a.target)}`)));
    }
    const curves = a.position === b.position
      ? make("figure", {}, tta.chart("Quality over time", series, a.quality, a.target, a.limits, a.position), legend)
      : make("p", {}, `A’s evaluations are over ${a.position}, B’s over ${b.position}: they cannot share a chart.`);
    const heads = head(["Quantity", ""], ["A"], ["B"], ["A / B"], ["95 % interval"], ["p"], ["Difference", ""]);
    const card = (heading, ...children) => make("section", { className: "card" }, make("h2", {}, heading), ...children);
    return output.replaceChildren(
      card("Numbers", link("A", a, one), link("B", b, other), table("Numbers", heads, amounts(a, b)),
        make("p", { className: "soft small" }, "p: the probability of a difference at least this large between equal systems, by Welch’s t-test on logarithms; significant below 5 %. It is a test of two results chosen beforehand: the ranks of a table compare all its pairs at once and are stricter.")),
      card("Quality over time", curves),
      card("Where the time went", make("p", { className: "soft" }, "Mean seconds per run."), ...phases(a, b)),
      card("Settings", table("Settings", head(["Setting", ""], ["A", ""], ["B", ""]), settings(a, b))));
  }
  const chosen = location.hash.slice(1).split("&").map(decodeURIComponent);
  if (known.some((link) => link.dataset.key === chosen[0])) first.value = chosen[0];
  const other = known.find((link) => link.dataset.key !== first.value && link.dataset.division === known.find((item) => item.dataset.key === first.value)?.dataset.division);
  second.value = known.some((link) => link.dataset.key === chosen[1]) ? chosen[1] : other?.dataset.key ?? first.value;
  first.addEventListener("change", show);
  second.addEventListener("change", show);
  show();
}
