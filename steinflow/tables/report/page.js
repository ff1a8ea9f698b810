// ---- all together ----

function all() {
  forest();
  marginals();
  pairs();
  traces();
  moving();
  effects();
  margins();
  groups();
  predictive();
  prior();
  grouped();
  if (!data.heldOut || !data.heldOut.calibration) return;
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
