// Text goes into the page through textContent only, so that names from the data are never read as HTML.
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

function number(x, digits = 3) {
  if (x === null || x === undefined || !isFinite(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-3) return x.toExponential(digits - 2).replace("e+", "e");
  return String(Number(x.toPrecision(digits)));
}

/** Texts for the ticks of an axis, with as many digits as it takes to tell them apart. */
function labels(ticks) {
  for (let digits = 3; digits < 12; digits++) {
    const texts = ticks.map((tick) => number(tick, digits));
    if (new Set(texts).size === ticks.length) return texts;
  }
  return ticks.map(String);
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
  return found.length < 2 && count < 10 ? ticks([low, high], count + 1) : found; // one tick says nothing about a scale
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
  const yTexts = options.yFormat ? yTicks.map(options.yFormat) : labels(yTicks);
  yTicks.forEach((tick, i) => {
    draw(svg, "line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "gridline" });
    draw(svg, "text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, yTexts[i]);
  });
  draw(svg, "line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" });
  const xTicks = options.xTicks || ticks(options.x, Math.min(6, (width - left) / 70));
  const xTexts = options.xFormat ? xTicks.map(options.xFormat) : labels(xTicks);
  xTicks.forEach((tick, i) => {
    draw(svg, "text", { x: x(tick), y: height - bottom + 17, "text-anchor": "middle" }, xTexts[i]);
  });
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
