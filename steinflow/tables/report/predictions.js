// ---- predictions ----

const percent = (v) => `${Math.round(100 * v)}%`;

function calibration() {
  const held = data.heldOut, isClass = held.kind === "classes";
  const two = held.labels.length === 2;
  const plot = axes(byId("calibration"), {
    height: 300, x: [0, 1], y: [0, 1.02], xTicks: [0, 0.25, 0.5, 0.75, 1], yTicks: [0, 0.25, 0.5, 0.75, 1], xFormat: percent, yFormat: percent, right: 18,
    title: isClass ? (two ? short(`How often it is “${held.labels[1]}”`, 40) : "How often the first guess is right") : "How many lie in their interval",
    xLabel: isClass ? "predicted probability" : "size of the interval",
  });
  draw(plot.inside, "line", { x1: plot.x(0), y1: plot.y(0), x2: plot.x(1), y2: plot.y(1), class: "zero" });
  const most = Math.max(...held.calibration.map((c) => c[2]));
  draw(plot.inside, "path", { d: path(held.calibration.map((c) => plot.x(c[0])), held.calibration.map((c) => plot.y(c[1]))), class: "line second" });
  for (const [expected, observed, count] of held.calibration) {
    const point = draw(plot.svg, "circle", { cx: plot.x(expected), cy: plot.y(observed), r: isClass ? 3 + 6 * Math.sqrt(count / most) : 4, class: "bar second" });
    explain(point, () => `expected ${percent(expected)}, seen ${percent(observed)}${isClass ? `\n${count.toLocaleString("en")} rows` : ""}`);
  }
}

function scatter() {
  const held = data.heldOut, range = extent(held.truth.concat(held.mean)), size = range[1] - range[0];
  // Whole intervals, but a few that are many times wider than all others do not squeeze these.
  const ends = extent([...held.truth, ...held.mean, ...held.low, ...held.high]);
  const y = [Math.max(ends[0], range[0] - 2 * size), Math.min(ends[1], range[1] + 2 * size)];
  const cut = ends[0] < y[0] || ends[1] > y[1];
  const plot = axes(byId("scatter"), { height: 300, x: range, y, xLabel: `true ${held.target}`, title: `Predicted, with 90% intervals${cut ? ", some cut off" : ""}` });
  draw(plot.inside, "line", { x1: plot.x(range[0]), y1: plot.y(range[0]), x2: plot.x(range[1]), y2: plot.y(range[1]), class: "zero" });
  held.truth.forEach((truth, i) => {
    if ([truth, held.mean[i], held.low[i], held.high[i]].some((v) => v === null)) return;
    draw(plot.inside, "line", { x1: plot.x(truth), x2: plot.x(truth), y1: plot.y(held.low[i]), y2: plot.y(held.high[i]), class: "interval" });
    const point = draw(plot.inside, "circle", { cx: plot.x(truth), cy: plot.y(held.mean[i]), r: 3, class: "particle" });
    explain(point, () => `row ${held.rows[i]}\ntrue ${number(truth)}\npredicted ${number(held.mean[i])}\n90%: ${number(held.low[i])} to ${number(held.high[i])}`);
  });
}

function probabilities() {
  const held = data.heldOut, bins = 20, counts = [Array(bins).fill(0), Array(bins).fill(0)];
  held.probability.forEach((p, i) => counts[held.truth[i] === held.labels[1] ? 1 : 0][Math.min(bins - 1, Math.floor(p * bins))]++);
  const most = counts.map((row) => Math.max(...row, 1));
  const plot = axes(byId("probabilities"), {
    height: 300, x: [0, 1], y: [-1.25 * most[0], 1.25 * most[1]], xTicks: [0, 0.25, 0.5, 0.75, 1], xFormat: percent, yFormat: (v) => number(Math.abs(v)), right: 18,
    title: "Rows by their predicted probability", xLabel: `predicted probability of “${held.labels[1]}”`,
  });
  counts.forEach((row, truth) => row.forEach((count, b) => {
    if (!count) return;
    const up = truth === 1, x = plot.x(b / bins), width = plot.x(1 / bins) - plot.x(0);
    const top = up ? plot.y(count) : plot.y(0);
    const bar = draw(plot.inside, "rect", { x: x + 1, y: top, width: width - 2, height: Math.abs(plot.y(count) - plot.y(0)), class: up ? "bar second" : "bar", rx: 2 });
    explain(bar, () => `${count} rows that are “${held.labels[truth]}”\npredicted ${percent(b / bins)} to ${percent((b + 1) / bins)}`);
  }));
  draw(plot.svg, "line", { x1: plot.left, x2: plot.width - plot.right, y1: plot.y(0), y2: plot.y(0), class: "axis" });
  draw(plot.svg, "text", { x: plot.left + 8, y: plot.top + 14, class: "name" }, short(`is “${held.labels[1]}” ↑`, 34));
  draw(plot.svg, "text", { x: plot.left + 8, y: plot.height - plot.bottom - 8, class: "name" }, short(`is “${held.labels[0]}” ↓`, 34));
}

function confusion() {
  const held = data.heldOut, box = byId("confusion");
  if (!held.confusion || held.confusion.length > 12) { box.remove(); return; }
  const table = html("table"), head = html("tr");
  table.append(html("caption", "Truth (rows) against the first guess (columns)"));
  head.append(html("th"), ...held.labels.map((label) => Object.assign(html("th", label), { title: label, scope: "col" })));
  table.append(head);
  const blue = getComputedStyle(document.documentElement).getPropertyValue("--blue").trim();
  held.confusion.forEach((counts, k) => {
    const row = html("tr"), total = counts.reduce((a, b) => a + b, 0) || 1;
    row.append(Object.assign(html("th", held.labels[k]), { scope: "row", title: held.labels[k] }));
    counts.forEach((count, j) => {
      const cell = html("td", count.toLocaleString("en"));
      cell.style.background = `color-mix(in srgb, ${blue} ${Math.round((70 * count) / total)}%, transparent)`;
      explain(cell, () => `“${held.labels[k]}” taken for “${held.labels[j]}”: ${percent(count / total)}`);
      row.append(cell);
    });
    table.append(row);
  });
  box.replaceChildren(table);
}
