// ---- what the model says: effects of predictors and groups, and new data beside those observed ----

const colors = ["a", "b", "c", "d", "e", "f", "g"];

function effects() {
  drawEffects("effects", data.effects);
}

function grouped() {
  drawEffects("grouped", ((data.predictive || {}).groups || []).map((group) => ({
    first: group.column, second: null, levels: group.levels, response: `Mean of ${data.target}`, observed: group.observed,
    curves: [{ label: null, x: group.levels.map((_, i) => i), low: group.low, middle: group.middle, high: group.high }],
  })));
}

function drawEffects(id, all) {
  const box = byId(id);
  if (!box) return;
  const cells = all.map((_, k) => Object.assign(html("div", undefined, "chart"), { id: `${id}-${k}` }));
  box.replaceChildren(...cells); // all of them, so that each has its width before it is drawn
  all.forEach((effect, k) => {
    drawEffect(cells[k], effect);
    if (effect.curves.length > 1) cells[k].append(legend(effect));
  });
}

function legend(effect) {
  const box = html("p", undefined, "legend");
  if (effect.second) box.append(html("span", `${effect.second}:`));
  effect.curves.forEach((curve, i) => {
    const entry = html("span", undefined, `color-${colors[i % colors.length]}`);
    entry.append(html("i"), html("span", curve.label));
    box.append(entry);
  });
  return box;
}

function drawEffect(cell, effect) {
  const all = [...effect.curves.flatMap((curve) => [...curve.low, ...curve.high]), ...(effect.observed || [])];
  const x = effect.levels ? [-0.5, effect.levels.length - 0.5] : extent(effect.curves[0].x, 0.02);
  const levels = effect.levels || [], space = (cell.clientWidth - 60) / Math.max(1, levels.length);
  const every = levels.length > 8 ? Math.ceil((Math.min(6, Math.max(...levels.map((level) => level.length))) * 7 + 6) / space) : 1;
  const room = every * space;
  const plot = axes(cell, {
    height: 250, x, y: extent(all), title: short(effect.response, cell.clientWidth / 9), xLabel: effect.first,
    ...(effect.levels ? { xTicks: levels.map((_, i) => i).filter((i) => i % every === 0), xFormat: (i) => short(effect.levels[i], room / 7) } : {}),
  });
  const at = (curve, i) => {
    const where = effect.levels ? effect.levels[curve.x[i]] : number(curve.x[i]);
    const seen = effect.observed ? `\nthe rows of the table: ${number(effect.observed[i])}` : "";
    return `${effect.first}: ${where}${curve.label === null ? "" : `\n${curve.label}`}\n${number(curve.middle[i])}\n90%: ${number(curve.low[i])} to ${number(curve.high[i])}${seen}`;
  };
  if (effect.observed && !effect.levels) {
    draw(plot.inside, "path", { d: path(effect.curves[0].x.map(plot.x), effect.observed.map(plot.y)), class: "seen-line" });
  }
  (effect.levels ? effect.observed || [] : []).forEach((mean, i) => {
    draw(plot.inside, "rect", { x: plot.x(i) - 10, width: 20, y: plot.y(mean) - 3, height: 6, class: "seen" });
  });
  effect.curves.forEach((curve, k) => {
    const color = `color-${colors[k % colors.length]}`, shift = effect.levels ? 0.12 * (k - (effect.curves.length - 1) / 2) : 0;
    const xs = curve.x.map((v) => plot.x(v + shift));
    if (!effect.levels) {
      const back = (values) => [...values].reverse();
      draw(plot.inside, "path", { d: `${path([...xs, ...back(xs)], [...curve.low.map(plot.y), ...back(curve.high.map(plot.y))])}Z`, class: `ribbon ${color}` });
      draw(plot.inside, "path", { d: path(xs, curve.middle.map(plot.y)), class: `curve ${color}` });
      const step = xs.length > 1 ? Math.abs(xs[1] - xs[0]) : 10;
      xs.forEach((x, i) => explain(draw(plot.svg, "rect", { x: x - step / 2, width: step, y: plot.y(curve.high[i]) - 4, height: plot.y(curve.low[i]) - plot.y(curve.high[i]) + 8, class: "hit" }), () => at(curve, i)));
      return;
    }
    xs.forEach((x, i) => {
      draw(plot.inside, "line", { x1: x, x2: x, y1: plot.y(curve.low[i]), y2: plot.y(curve.high[i]), class: `curve ${color}` });
      explain(draw(plot.inside, "circle", { cx: x, cy: plot.y(curve.middle[i]), r: 5, class: `mark ${color}` }), () => at(curve, i));
    });
  });
}

function groups() {
  drawForests("groups", data.groups);
}

function margins() {
  drawForests("margins", data.margins);
}

function drawForests(id, all) {
  const box = byId(id);
  if (!box) return;
  const charts = all.map((_, k) => Object.assign(html("div", undefined, "chart"), { id: `${id}-${k}` }));
  box.replaceChildren(...all.map((each, k) => {
    const cell = html("div");
    cell.append(html("p", each.title, "cell-name"), charts[k]);
    return cell;
  }));
  all.forEach((each, k) => drawForest(charts[k], each, each.fromZero));
}

function predictive() {
  drawBeside("predictive", data.predictive, "the model expects");
}

function prior() {
  drawBeside("prior", data.prior, "the priors expect");
  const beyond = Math.round(100 * ((data.prior || {}).beyond || 0));
  if (beyond > 0) byId("prior").append(html("p", `${beyond}% of the values drawn lie beyond the chart.`, "hint"));
}

/** The rows of the table beside data sets that were drawn. */
function drawBeside(id, shown, who) {
  const box = byId(id);
  if (!box || !shown) return;
  if (shown.kind === "classes" || shown.kind === "times") {
    const isTimes = shown.kind === "times", x = isTimes ? shown.times : shown.levels.map((_, i) => i);
    drawEffect(box, {
      first: data.target, second: null, levels: shown.levels || null, observed: shown.observed,
      response: isTimes ? "Share of rows without the event" : "Share of the rows",
      curves: [{ label: null, x, low: shown.low, middle: shown.middle, high: shown.high }],
    });
    return;
  }
  // On the scale of square roots, where counts scatter about as much in tall bars as in low ones.
  const root = Math.sqrt, { edges, observed, low, middle, high } = shown;
  const isCount = shown.kind === "counts", most = Math.max(...observed, ...high);
  const plot = axes(box, {
    height: 300, x: [edges[0], edges[edges.length - 1]], y: [0, root(most) * 1.06], xLabel: data.target, title: "Number of rows",
    yTicks: ticks([0, most], 5).map(root), yFormat: (v) => number(Math.round(v * v)),
    ...(isCount ? { xTicks: ticks([Math.ceil(edges[0]), Math.floor(edges[edges.length - 1])], 8).filter(Number.isInteger) } : {}),
  });
  observed.forEach((count, i) => {
    const x0 = plot.x(edges[i]), x1 = plot.x(edges[i + 1]), middleX = (x0 + x1) / 2;
    draw(plot.inside, "rect", { x: x0 + 0.5, width: Math.max(0.5, x1 - x0 - 1), y: plot.y(root(count)), height: plot.y(0) - plot.y(root(count)), class: "seen" });
    draw(plot.inside, "line", { x1: middleX, x2: middleX, y1: plot.y(root(low[i])), y2: plot.y(root(high[i])), class: "curve color-a" });
    draw(plot.inside, "circle", { cx: middleX, cy: plot.y(root(middle[i])), r: Math.min(3.5, Math.max(1.5, (x1 - x0) / 4)), class: "mark color-a" });
    const where = isCount ? String(Math.round((edges[i] + edges[i + 1]) / 2)) : `${number(edges[i])} to ${number(edges[i + 1])}`;
    explain(draw(plot.svg, "rect", { x: x0, width: x1 - x0, y: plot.top, height: plot.height - plot.top - plot.bottom, class: "hit" }), () => `${where}: ${count} rows\n${who} ${number(middle[i])}, 90%: ${number(low[i])} to ${number(high[i])}`);
  });
}
