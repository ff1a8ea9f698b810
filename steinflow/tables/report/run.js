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
  if (!data.trace || !byId("ksd")) return;
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
