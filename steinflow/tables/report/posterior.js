// ---- the posterior ----

// Coefficients, the clearest first; and below them what is about the model as a whole.
const coefficients = data.parameters, others = data.others;
const some = (p, count) => ({ ...p, names: p.names.slice(0, count), mean: p.mean.slice(0, count), sd: p.sd.slice(0, count), quantiles: p.quantiles.slice(0, count), values: p.values.slice(0, count) });
const joined = (p, q) => ({ ...p, names: [...p.names, ...q.names], mean: [...p.mean, ...q.mean], sd: [...p.sd, ...q.sd], quantiles: [...p.quantiles, ...q.quantiles], values: [...p.values, ...q.values] });

function forest() {
  drawForest(byId("forest"), coefficients.names.length ? coefficients : others);
}

/** Means with their central 90%, and 50% where that is given; zero is in sight where they are effects. */
function drawForest(box, posterior, fromZero = true) {
  const width = box.clientWidth, row = 26, count = posterior.names.length;
  const longest = Math.max(...posterior.names.map((name) => name.length));
  const names = Math.min(300, width * 0.45, 30 + 7.6 * longest), height = count * row + 34;
  const range = extent(posterior.quantiles.flat().concat(fromZero ? [0] : []), 0.03);
  const plot = axes(box, { height, x: range, y: [0, 1], yTicks: [], left: names, top: 4, bottom: 26, right: 14 });
  for (const tick of ticks(range, Math.min(6, (width - names) / 70))) {
    draw(plot.svg, "line", { x1: plot.x(tick), x2: plot.x(tick), y1: 4, y2: height - 26, class: "gridline" });
  }
  if (fromZero) draw(plot.svg, "line", { x1: plot.x(0), x2: plot.x(0), y1: 4, y2: height - 26, class: "zero" });
  posterior.names.forEach((name, k) => {
    const y = 4 + row * (k + 0.5), [q05, q25, , q75, q95] = posterior.quantiles[k];
    const hit = draw(plot.svg, "rect", { x: 0, y: y - row / 2, width, height: row, class: "hit" });
    const group = draw(plot.svg, "g", { "pointer-events": "none" });
    draw(group, "text", { x: names - 12, y: y + 4, "text-anchor": "end", class: "name" }, short(name, names / 7.4));
    if (q05 === null || q95 === null) return;
    draw(group, "line", { x1: plot.x(q05), x2: plot.x(q95), y1: y, y2: y, class: "thin" });
    if (q25 !== null && q75 !== null) draw(group, "line", { x1: plot.x(q25), x2: plot.x(q75), y1: y, y2: y, class: "thick" });
    draw(group, "circle", { cx: plot.x(posterior.mean[k]), cy: y, r: 4.5, class: "dot" });
    explain(hit, () => `${name}\nmean ${number(posterior.mean[k])}, sd ${number(posterior.sd[k])}\n90%: ${number(q05)} to ${number(q95)}`);
  });
}

/** A density by Gaussian kernels, of Silverman's width. */
function density(values, weights, grid) {
  const total = weights.reduce((a, b) => a + b, 0);
  const mean = values.reduce((sum, v, i) => sum + v * weights[i], 0) / total;
  const sd = Math.sqrt(values.reduce((sum, v, i) => sum + (v - mean) ** 2 * weights[i], 0) / total);
  const effective = total ** 2 / weights.reduce((sum, w) => sum + w * w, 0);
  const width = Math.max(0.95 * sd * Math.pow(effective, -0.2), 1e-12 * Math.abs(mean), 1e-300);
  return grid.map((g) => values.reduce((sum, v, i) => sum + weights[i] * Math.exp(-0.5 * ((g - v) / width) ** 2), 0) / (total * width * 2.5066));
}

function drawDensity(posterior, plot, k, range) {
  const pairs = posterior.values[k].map((v, i) => [v, posterior.weights[i]]).filter(([v]) => v !== null);
  const grid = Array.from({ length: 90 }, (_, i) => range[0] + ((range[1] - range[0]) * i) / 89);
  const heights = density(pairs.map((p) => p[0]), pairs.map((p) => p[1]), grid);
  const highest = Math.max(...heights) || 1, base = plot.height - plot.bottom;
  const y = (h) => base - (h / highest) * (base - plot.top) * 0.96;
  const [q05, , , , q95] = posterior.quantiles[k];
  const inside = grid.map((g, i) => [g, heights[i]]).filter(([g]) => g >= q05 && g <= q95);
  if (inside.length > 1) {
    const outline = path(inside.map((p) => plot.x(p[0])), inside.map((p) => y(p[1])));
    draw(plot.inside, "path", { d: `${outline}L${plot.x(inside[inside.length - 1][0])} ${base}L${plot.x(inside[0][0])} ${base}Z`, class: "band" });
  }
  draw(plot.inside, "path", { d: path(grid.map(plot.x), heights.map(y)), class: "density" });
}

function marginals() {
  const box = byId("marginals");
  const posterior = joined(some(coefficients, Math.max(8, 12 - others.names.length)), some(others, 4));
  box.replaceChildren();
  for (let k = 0; k < posterior.names.length; k++) {
    const cell = html("div"), name = html("p", posterior.names[k], "cell-name"), chart = html("div");
    name.title = posterior.names[k];
    cell.append(name, html("p", `${number(posterior.mean[k])} ± ${number(posterior.sd[k])}`, "cell-value"), chart);
    box.append(cell);
    const range = extent(posterior.values[k], 0.15);
    const plot = axes(chart, { height: 104, x: range, y: [0, 1], yTicks: [], left: 4, right: 4, top: 4, bottom: 22, xTicks: ticks(range, 3) });
    drawDensity(posterior, plot, k, range);
  }
}

function pairs() {
  const box = byId("pairs"), narrow = box.clientWidth < 560;
  const posterior = coefficients.names.length > 1 ? coefficients : joined(coefficients, others);
  const count = Math.min(narrow ? 3 : 5, posterior.names.length);
  box.replaceChildren();
  const side = Math.min(212, (box.clientWidth - 4) / count), gap = 8, size = side * count;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${box.clientWidth} ${size}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Pairs of parameters");
  box.append(svg);
  const ranges = posterior.values.slice(0, count).map((values) => extent(values, 0.08));
  for (let row = 0; row < count; row++) {
    for (let column = 0; column < count; column++) {
      const x0 = column * side, y0 = row * side, inner = side - gap;
      if (column > row) {
        const r = correlation(posterior.values[column], posterior.values[row], posterior.weights);
        draw(svg, "text", { x: x0 + inner / 2, y: y0 + inner / 2 + 5, "text-anchor": "middle", class: "name", opacity: (0.35 + 0.65 * Math.abs(r)).toFixed(2) }, isFinite(r) ? r.toFixed(2) : "–");
        continue;
      }
      const pane = draw(svg, "g", {});
      draw(pane, "rect", { x: x0, y: y0, width: inner, height: inner, fill: "none", class: "axis" });
      const place = (k, v) => ((v - ranges[k][0]) / (ranges[k][1] - ranges[k][0])) * inner;
      if (row === column) {
        const plot = { x: (v) => x0 + place(row, v), inside: pane, top: y0 + 22, bottom: 0, height: y0 + inner };
        drawDensity(posterior, plot, row, ranges[row]);
        draw(pane, "text", { x: x0 + 6, y: y0 + 15, class: "name" }, short(posterior.names[row], inner / 7.2));
        continue;
      }
      posterior.values[column].forEach((v, i) => {
        const w = posterior.values[row][i];
        if (v === null || w === null) return;
        const point = draw(pane, "circle", {
          cx: (x0 + place(column, v)).toFixed(1), cy: (y0 + inner - place(row, w)).toFixed(1),
          r: (0.8 + 1.9 * Math.sqrt(posterior.weights[i])).toFixed(1), class: "point", "data-particle": i,
        });
        point.addEventListener("pointerenter", () => find(svg, i, true));
        point.addEventListener("pointerleave", () => find(svg, i, false));
        explain(point, () => posterior.names.slice(0, count).map((n, k) => `${n}: ${number(posterior.values[k][i])}`).join("\n"));
      });
    }
  }
}
function correlation(a, b, weights) {
  const total = weights.reduce((sum, w) => sum + w, 0);
  const mean = (v) => v.reduce((sum, x, i) => sum + weights[i] * x, 0) / total;
  const ma = mean(a), mb = mean(b), product = (u, v, mu, mv) => u.reduce((sum, x, i) => sum + weights[i] * (x - mu) * (v[i] - mv), 0);
  return product(a, b, ma, mb) / Math.sqrt(product(a, a, ma, ma) * product(b, b, mb, mb));
}

const find = (svg, i, on) => svg.querySelectorAll(`[data-particle="${i}"]`).forEach((p) => p.classList.toggle("found", on));
