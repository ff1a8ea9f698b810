"use strict";
// Text goes into the page through textContent only, so that names from the data are never read as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);

  // ---- drawing ----

  function html(tag, text, className) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function draw(parent, tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  const short = (text, most) => (text.length <= most ? text : text.slice(0, Math.max(1, most - 1)) + "…");

  function number(x) {
    if (x === null || x === undefined || !isFinite(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e5 || size < 1e-3) return x.toExponential(1).replace("e+", "e");
    return String(Number(x.toPrecision(3)));
  }

  const finite = (values) => values.filter((v) => v !== null && isFinite(v));

  function extent(values, margin = 0.06) {
    const known = finite(values);
    if (!known.length) return [0, 1];
    let low = Math.min(...known), high = Math.max(...known);
    if (low === high) { const by = Math.abs(low) || 1; low -= by; high += by; }
    const more = margin * (high - low);
    return [low - more, high + more];
  }

  function ticks([low, high], count) {
    const rough = (high - low) / Math.max(1, count);
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) || power;
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step && found.length < 50; k++) found.push(k * step);
    return found;
  }

  function logTicks([low, high]) {
    const found = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
      for (const k of [1, 2, 5]) {
        const value = k * Math.pow(10, p);
        if (value >= low && value <= high) found.push(value);
      }
    }
    return found.length > 7 ? found.filter((_, i) => i % Math.ceil(found.length / 6) === 0) : found;
  }

  /** Axes in a container, with the functions x and y from values to places. */
  function axes(container, options) {
    const width = Math.max(120, container.clientWidth), height = options.height;
    const left = options.left ?? 52, bottom = options.bottom ?? 40, top = options.top ?? 26, right = options.right ?? 10;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", options.title || "");
    container.replaceChildren(svg);
    const place = (range, from, to, log) => {
      const f = log ? Math.log : (v) => v;
      const low = f(range[0]), high = f(range[1]);
      return (v) => from + ((f(v) - low) / (high - low)) * (to - from);
    };
    const x = place(options.x, left, width - right, false);
    const y = place(options.y, height - bottom, top, options.logY);
    const id = `clip-${container.id || Math.random().toString(36).slice(2)}`;
    const clip = draw(draw(svg, "defs", {}), "clipPath", { id });
    draw(clip, "rect", { x: left, y: top, width: Math.max(0, width - left - right), height: Math.max(0, height - top - bottom) });
    if (options.title) draw(svg, "text", { x: left, y: 14, class: "title" }, options.title);
    const yTicks = options.yTicks || (options.logY ? logTicks(options.y) : ticks(options.y, 4));
    for (const tick of yTicks) {
      draw(svg, "line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "gridline" });
      draw(svg, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, (options.yFormat || number)(tick));
    }
    draw(svg, "line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" });
    for (const tick of options.xTicks || ticks(options.x, Math.min(6, width / 70))) {
      draw(svg, "text", { x: x(tick), y: height - bottom + 17, "text-anchor": "middle" }, (options.xFormat || number)(tick));
    }
    const characters = (width - left) / 7;
    if (options.xLabel) {
      draw(svg, "text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, short(options.xLabel, characters));
    }
    const inside = draw(svg, "g", { "clip-path": `url(#${id})` });
    return { svg, inside, x, y, width, height, left, right, top, bottom };
  }

  const path = (xs, ys) => {
    let d = "", open = false;
    xs.forEach((x, i) => {
      if (!isFinite(x) || !isFinite(ys[i])) { open = false; return; }
      d += `${open ? "L" : "M"}${x.toFixed(1)} ${ys[i].toFixed(1)}`;
      open = true;
    });
    return d;
  };

  // ---- tooltip ----

  const tip = byId("tip");
  function explain(node, text) {
    node.addEventListener("pointerenter", (event) => {
      tip.textContent = text();
      tip.hidden = false;
      moveTip(event);
    });
    node.addEventListener("pointermove", moveTip);
    node.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
  function moveTip(event) {
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${Math.max(6, event.clientY - box.height - 12)}px`;
  }

  // ---- the posterior ----

  // Coefficients, the clearest first; and below them what is about the model as a whole.
  const coefficients = data.parameters, others = data.others;
  const some = (p, count) => ({ ...p, names: p.names.slice(0, count), mean: p.mean.slice(0, count), sd: p.sd.slice(0, count), quantiles: p.quantiles.slice(0, count), values: p.values.slice(0, count) });
  const joined = (p, q) => ({ ...p, names: [...p.names, ...q.names], mean: [...p.mean, ...q.mean], sd: [...p.sd, ...q.sd], quantiles: [...p.quantiles, ...q.quantiles], values: [...p.values, ...q.values] });

  function forest() {
    const posterior = coefficients, box = byId("forest"), width = box.clientWidth, row = 26, count = posterior.names.length;
    const longest = Math.max(...posterior.names.map((name) => name.length));
    const names = Math.min(300, width * 0.45, 30 + 7.6 * longest), height = count * row + 34;
    const range = extent(posterior.quantiles.flat().concat([0]), 0.03);
    const plot = axes(box, { height, x: range, y: [0, 1], yTicks: [], left: names, top: 4, bottom: 26, right: 14 });
    for (const tick of ticks(range, Math.min(6, (width - names) / 70))) {
      draw(plot.svg, "line", { x1: plot.x(tick), x2: plot.x(tick), y1: 4, y2: height - 26, class: "gridline" });
    }
    draw(plot.svg, "line", { x1: plot.x(0), x2: plot.x(0), y1: 4, y2: height - 26, class: "zero" });
    posterior.names.forEach((name, k) => {
      const y = 4 + row * (k + 0.5), [q05, q25, , q75, q95] = posterior.quantiles[k];
      const hit = draw(plot.svg, "rect", { x: 0, y: y - row / 2, width, height: row, class: "hit" });
      const group = draw(plot.svg, "g", { "pointer-events": "none" });
      draw(group, "text", { x: names - 12, y: y + 4, "text-anchor": "end", class: "name" }, short(name, names / 7.4));
      if ([q05, q25, q75, q95].some((q) => q === null)) return;
      draw(group, "line", { x1: plot.x(q05), x2: plot.x(q95), y1: y, y2: y, class: "thin" });
      draw(group, "line", { x1: plot.x(q25), x2: plot.x(q75), y1: y, y2: y, class: "thick" });
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

  // ---- motion ----

  const motion = data.motion, state = { position: 0, playing: false, last: 0, redraw: () => {} };

  function moving() {
    if (!motion) return;
    const box = byId("motion"), across = Number(byId("across").value), up = Number(byId("up").value);
    const last = motion.frames.length - 1, zoom = byId("zoom").checked;
    const range = (k) => {
      if (zoom) return extent(motion.frames[last][k], 0.25);
      const all = finite(motion.frames.flatMap((frame) => frame[k])).sort((a, b) => a - b);
      // A few that start far out would squeeze all the others.
      return extent([all[Math.floor(0.005 * all.length)], all[Math.ceil(0.995 * all.length) - 1], ...finite(motion.frames[last][k])], 0.08);
    };
    const plot = axes(box, {
      height: Math.min(440, Math.max(280, box.clientWidth * 0.55)), x: range(across), y: range(up), top: 24,
      xLabel: motion.names[across], title: short(motion.names[up], box.clientWidth / 9),
    });
    const count = motion.frames[0][across].length;
    const trails = [], points = [];
    for (let i = 0; i < count; i++) trails.push(draw(plot.inside, "path", { class: "trail" }));
    for (let i = 0; i < count; i++) points.push(draw(plot.inside, "circle", { r: 4, class: "particle" }));
    const at = (k, i, position) => {
      const f = Math.min(last, Math.floor(position)), g = Math.min(last, f + 1), part = position - f;
      return motion.frames[f][k][i] * (1 - part) + motion.frames[g][k][i] * part;
    };
    state.redraw = () => {
      const from = Math.max(0, Math.ceil(state.position) - 6);
      for (let i = 0; i < count; i++) {
        const x = plot.x(at(across, i, state.position)), y = plot.y(at(up, i, state.position));
        points[i].setAttribute("cx", x.toFixed(2));
        points[i].setAttribute("cy", y.toFixed(2));
        const xs = [], ys = [];
        for (let f = from; f < state.position; f++) { xs.push(plot.x(motion.frames[f][across][i])); ys.push(plot.y(motion.frames[f][up][i])); }
        trails[i].setAttribute("d", path([...xs, x], [...ys, y]));
      }
      const frame = Math.round(state.position);
      byId("slider").value = frame;
      byId("step").textContent = `step ${motion.steps[frame].toLocaleString("en")}`;
      cursors.forEach((move) => move(motion.steps[frame]));
    };
    state.redraw();
  }

  function play(on) {
    state.playing = on;
    const button = byId("play");
    button.textContent = on ? "❚❚" : "▶";
    button.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return;
    if (state.position >= motion.frames.length - 1) state.position = 0;
    state.last = performance.now();
    requestAnimationFrame(tick);
  }

  function tick(now) {
    if (!state.playing) return;
    const passed = Math.max(0, now - state.last); // the first frame may have begun before the click
    state.position = Math.min(motion.frames.length - 1, state.position + passed / 110);
    state.last = now;
    state.redraw();
    if (state.position >= motion.frames.length - 1) play(false);
    else requestAnimationFrame(tick);
  }

  function prepareMotion() {
    if (!motion) return;
    const last = motion.frames.length - 1;
    byId("slider").max = last;
    state.position = last;
    motion.names.forEach((name, k) => {
      for (const id of ["across", "up"]) {
        const option = html("option", name);
        option.value = k;
        byId(id).append(option);
      }
    });
    byId("up").value = Math.min(1, motion.names.length - 1);
    for (const id of ["across", "up", "zoom"]) byId(id).addEventListener("change", moving);
    byId("slider").addEventListener("input", (event) => { play(false); state.position = Number(event.target.value); state.redraw(); });
    byId("play").addEventListener("click", () => play(!state.playing));
  }

  // ---- how the run went ----

  let cursors = [];
  function traces() {
    cursors = [];
    if (!data.trace) return;
    const { steps, ksd, dispersion } = data.trace, x = [0, Math.max(1, ...steps)];
    const positive = finite(ksd).filter((v) => v > 0);
    const y = positive.length ? [Math.min(...positive) * 0.8, Math.max(...positive) * 1.25] : [0.1, 1];
    line("ksd", { title: "KSD, on a logarithmic scale", x, y, logY: true }, ksd, "line");
    const known = finite(dispersion);
    const low = Math.max(-1, Math.min(0, ...known)), high = Math.min(3, Math.max(1.3, ...known) * 1.05);
    const plot = line("dispersion", { title: "Dispersion; 1 is right", x, y: [low, high] }, dispersion, "line second");
    const band = draw(plot.inside, "rect", { x: plot.left, width: plot.width - plot.left - plot.right, y: plot.y(1.1), height: plot.y(0.9) - plot.y(1.1), class: "band" });
    plot.inside.prepend(band);

    function line(id, options, values, className) {
      const plot = axes(byId(id), { height: 240, xLabel: "step", ...options });
      const ys = values.map((v) => (v === null || (options.logY && v <= 0) ? NaN : plot.y(v)));
      draw(plot.inside, "path", { d: path(steps.map(plot.x), ys), class: className });
      const cursor = draw(plot.inside, "line", { y1: plot.top, y2: plot.height - plot.bottom, class: "zero" });
      cursors.push((step) => { cursor.setAttribute("x1", plot.x(step)); cursor.setAttribute("x2", plot.x(step)); });
      const hit = draw(plot.svg, "rect", { x: plot.left, y: plot.top, width: plot.width - plot.left - plot.right, height: plot.height - plot.top - plot.bottom, class: "hit" });
      let text = "";
      hit.addEventListener("pointermove", (event) => {
        const box = plot.svg.getBoundingClientRect();
        const step = x[0] + (((event.clientX - box.left) * plot.width / box.width - plot.left) / (plot.width - plot.left - plot.right)) * (x[1] - x[0]);
        let best = 0;
        steps.forEach((s, i) => { if (Math.abs(s - step) < Math.abs(steps[best] - step)) best = i; });
        text = `step ${steps[best].toLocaleString("en")}: ${number(values[best])}`;
        tip.textContent = text;
      });
      explain(hit, () => text);
      return plot;
    }
  }

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
    const held = data.heldOut, range = extent(held.truth.concat(held.mean));
    const plot = axes(byId("scatter"), { height: 300, x: range, y: range, xLabel: `true ${held.target}`, title: "Predicted, with 90% intervals" });
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

  // ---- all together ----

  function all() {
    forest();
    marginals();
    pairs();
    traces();
    moving();
    if (!data.heldOut) return;
    calibration();
    if (data.heldOut.kind !== "classes") scatter();
    else {
      if (byId("probabilities")) probabilities();
      if (byId("confusion")) confusion();
    }
  }

  prepareMotion();
  all();
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone hides its address bar
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(all, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (data.heldOut && byId("confusion")) confusion(); });
  document.documentElement.dataset.ready = "yes";
})();
