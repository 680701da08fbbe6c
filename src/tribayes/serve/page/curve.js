// The second tab: points that are clicked, and the network's band around its curve.

import { ask, newest, say } from "./api.js";
import { onSlide, shape } from "./shapes.js";

const byId = (id) => document.getElementById(id);
const LEFT = -1.5, RIGHT = 1.5, LOW = -1.2, TOP = 1.2, NEAR = 16, STEP = 0.05;
const EXAMPLE = [[-0.9, -0.55], [-0.8, -0.72], [-0.65, -0.5], [-0.5, -0.38], [-0.4, -0.05], [-0.25, 0.22], [-0.1, 0.3], [0.5, 0.35], [0.6, 0.12], [0.7, 0.2], [0.8, -0.15]];

export function startCurve() {
  const plot = byId("plot"), status = byId("fit");
  let points = [], band = null, cross = [0, 0], wide = 0, high = 0; // in pixels, so that a point is as large on a phone
  const across = (x) => ((x - LEFT) / (RIGHT - LEFT)) * wide;
  const down = (y) => ((TOP - y) / (TOP - LOW)) * high;
  const line = (x, y) => `M${x.map((value, number) => `${across(value).toFixed(1)} ${down(y[number]).toFixed(1)}`).join("L")}`;
  const area = (x, bounds) => {
    const there = line(x, bounds.map(([, upper]) => upper));
    return `${there}L${line([...x].reverse(), bounds.map(([lower]) => lower).reverse()).slice(1)}Z`;
  };

  const refit = newest(async () => {
    if (points.length < 2) {
      band = null;
      status.textContent = "Two points or more are needed.";
      paint();
      return;
    }
    status.textContent = `Fitting ${points.length} points …`;
    try {
      const asked = { points, kl_weight: 10 ** Number(byId("kl").value), left: LEFT, right: RIGHT };
      band = await ask("/api/regression", { body: JSON.stringify(asked), type: "application/json" });
      status.textContent = `Fitted to ${points.length} points, which scatter by ${band.noise.toFixed(2)} about the curve.`;
    } catch (error) {
      status.textContent = error.message;
    }
    paint();
  });

  function paint() {
    [wide, high] = [plot.clientWidth, plot.clientHeight];
    if (!wide) return; // another tab is open
    plot.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    plot.replaceChildren();
    shape(plot, "line", { class: "axis", x1: 0, x2: wide, y1: down(0), y2: down(0) });
    shape(plot, "line", { class: "axis", x1: across(0), x2: across(0), y1: 0, y2: high });
    if (band) {
      shape(plot, "path", { class: "wide", d: area(band.x, band.observation) });
      shape(plot, "path", { class: "narrow", d: area(band.x, band.function) });
      shape(plot, "path", { class: "mean", d: line(band.x, band.mean) });
    }
    for (const tick of [-1, 0, 1]) {
      shape(plot, "text", { x: across(tick) + 4, y: high - 6 }, tick);
      if (tick) shape(plot, "text", { x: 6, y: down(tick) + 4 }, tick);
    }
    for (const [x, y] of points) shape(plot, "circle", { class: "point", cx: across(x), cy: down(y), r: 6 });
    if (plot.matches(":focus-visible")) {
      const [x, y] = [across(cross[0]), down(cross[1])];
      shape(plot, "path", { class: "cross", d: `M${x - 12} ${y}H${x + 12}M${x} ${y - 12}V${y + 12}` });
    }
  }

  const change = (next) => { points = next; paint(); refit(); };

  plot.addEventListener("click", (event) => {
    const bounds = plot.getBoundingClientRect();
    const [px, py] = [event.clientX - bounds.left - plot.clientLeft, event.clientY - bounds.top - plot.clientTop];
    const hit = points.findIndex(([x, y]) => Math.hypot(across(x) - px, down(y) - py) < NEAR);
    const made = [LEFT + (px / wide) * (RIGHT - LEFT), TOP - (py / high) * (TOP - LOW)];
    change(hit < 0 ? [...points, made] : points.filter((_, number) => number !== hit));
  });
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key in moves) {
      const [x, y] = moves[event.key];
      cross = [Math.min(RIGHT, Math.max(LEFT, cross[0] + x * STEP)), Math.min(TOP, Math.max(LOW, cross[1] + y * STEP))];
      paint();
      say(`Cross at ${placeOf(cross)}.`);
    } else if (event.key === "Enter") {
      change([...points, cross]);
      say(`A point at ${placeOf(cross)}.`);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      change(points.slice(0, -1));
    } else {
      return;
    }
    event.preventDefault();
  });
  for (const name of ["focus", "blur"]) plot.addEventListener(name, paint);
  byId("example").addEventListener("click", () => change(EXAMPLE));
  byId("undo").addEventListener("click", () => change(points.slice(0, -1)));
  byId("none").addEventListener("click", () => change([]));
  onSlide(byId("kl"), refit, (power) => (10 ** power).toPrecision(2));
  new ResizeObserver(paint).observe(plot); // also when its tab is opened
}

const placeOf = (place) => place.map((value) => Number(value.toFixed(2))).join(", ");
