// The figures one can move. Each replaces the picture inside <figure data-figure="…">, which stays where scripts do not run.
// Plain SVG, nothing loaded; colours are the theme's; sliders are ordinary inputs, so keyboard and screen readers know them.

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

function text(parent, x, y, words, attributes = {}) {
  make("text", { x, y, class: "fig-text", ...attributes }, parent).textContent = words;
}

// A small generator with a seed, so that the same draw can be shown under another ρ.
function normals(seed, count) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()));
}

// ρ = t / (1 + t²) solved for |t| < 1.
const coefficient = (rho) => (Math.abs(rho) < 1e-9 ? 0 : (1 - Math.sqrt(1 - 4 * rho * rho)) / (2 * rho));

const correlated = (x, t) => x.slice(1).map((value, i) => (value + t * x[i]) / Math.sqrt(1 + t * t));

function minus(number, digits = 2) {
  return number.toFixed(digits).replace("-", "−");
}

// A frame: the drawing, the sliders below it, and a sentence for those who do not see the drawing.
function frame(figure, width, height, sliders, draw, button) {
  const image = figure.querySelector("img");
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "fig-svg" });
  const said = document.createElement("p");
  said.className = "fig-said";
  said.setAttribute("aria-live", "polite");
  const controls = document.createElement("div");
  controls.className = "fig-controls";
  const values = { seed: 1 };
  const redraw = () => {
    svg.replaceChildren();
    const sentence = draw(svg, values);
    svg.setAttribute("aria-label", sentence);
    said.textContent = sentence;
  };
  for (const { name, label, min, max, step, value } of sliders) {
    values[name] = value;
    const box = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "range", min, max, step });
    input.value = value;
    const shown = document.createElement("output");
    const show = () => (shown.textContent = minus(values[name]));
    input.addEventListener("input", () => {
      values[name] = Number(input.value);
      show();
      redraw();
    });
    show();
    box.append(`${label} `, input, shown);
    controls.append(box);
  }
  if (button) {
    const again = Object.assign(document.createElement("button"), { type: "button", textContent: button });
    again.className = "md-button";
    again.addEventListener("click", () => {
      values.seed += 1;
      redraw();
    });
    controls.append(again);
  }
  redraw();
  image.replaceWith(svg, controls, said);
}

const RHO = { name: "rho", label: "ρ", min: -0.49, max: 0.49, step: 0.01, value: 0.35 };
const TAU = { name: "tau", label: "τ", min: 0.05, max: 1, step: 0.05, value: 0.5 };

// The covariance of eight weights: τ² m² on the diagonal, ρ τ² |m m'| beside it, nothing beyond.
function covariance(figure) {
  const means = [1, -0.6, 0.3, 0.9, -1, 0.5, 0.2, -0.8];
  frame(figure, 640, 290, [RHO, TAU], (svg, { rho, tau }) => {
    const cell = 30;
    means.forEach((mean, i) => {
      text(svg, 165, 44 + i * cell, minus(mean, 1), { "text-anchor": "end" });
      means.forEach((other, j) => {
        const scale = Math.abs(i - j) > 1 ? 0 : i === j ? 1 : rho;
        const value = scale * tau * tau * Math.abs(mean * other);
        const shade = { x: 180 + j * cell, y: 24 + i * cell, width: cell - 2, height: cell - 2, rx: 3 };
        make("rect", { ...shade, class: "fig-cell" }, svg);
        make("rect", { ...shade, class: value < 0 ? "fig-negative" : "fig-positive", opacity: Math.sqrt(Math.abs(value)) }, svg);
      });
    });
    text(svg, 165, 16, "mean", { "text-anchor": "end" });
    text(svg, 300, 282, "weights, row by row", { "text-anchor": "middle" });
    ["positive", "negative"].forEach((word, i) => {
      make("rect", { x: 460, y: 40 + 30 * i, width: 20, height: 20, rx: 3, class: `fig-${word}` }, svg);
      text(svg, 488, 55 + 30 * i, word);
    });
    return `With ρ = ${minus(rho)} and τ = ${minus(tau)}, a weight of mean 1 has the standard deviation ${minus(tau)}; neighbours have the correlation ${minus(rho)}, all others none.`;
  });
}

// A draw: independent normals above, each weight's noise the sum of two neighbours of them below.
function movingAverage(figure) {
  frame(figure, 640, 300, [RHO], (svg, { rho, seed }) => {
    const t = coefficient(rho);
    const x = normals(seed, 25);
    const noise = correlated(x, t);
    const bar = (values, base, kind, offset) =>
      values.forEach((value, i) => {
        const height = 28 * value;
        make("rect", { x: 20 + 25 * (i + offset), y: Math.min(base, base - height), width: 13, height: Math.abs(height), class: kind }, svg);
      });
    const link = (i, j, strength) =>
      make("line", { x1: 26 + 25 * i, y1: 92, x2: 26 + 25 * (j + 0.5), y2: 212, class: strength < 0 ? "fig-link-negative" : "fig-link", "stroke-opacity": Math.abs(strength) }, svg);
    noise.forEach((_, i) => {
      link(i + 1, i, 0.7 / Math.sqrt(1 + t * t));
      link(i, i, (0.7 * t) / Math.sqrt(1 + t * t));
    });
    bar(x, 92, "fig-quiet", 0);
    bar(noise, 212, "fig-positive", 0.5);
    text(svg, 20, 14, "independent normals x");
    text(svg, 20, 292, `noise of the weights, (xᵢ + ${minus(t)} xᵢ₋₁) / ${minus(Math.sqrt(1 + t * t))}`);
    const same = noise.slice(1).filter((value, i) => value * noise[i] > 0).length;
    return `ρ = ${minus(rho)} is t = ${minus(t)}: in this draw ${same} of 23 neighbours have the same sign; expected are ${minus(23 * (0.5 + Math.asin(rho) / Math.PI), 1)}.`;
  }, "Draw again");
}

// What ρ does to the noise of an output: Var = τ² (Σ m²x² + 2ρ Σ |m m'| x x'), for an input from smooth to rough.
function convolution(figure) {
  const taps = 9;
  frame(figure, 640, 270, [RHO, { name: "rough", label: "roughness", min: 0, max: 1, step: 0.05, value: 0 }], (svg, { rho, rough }) => {
    const input = Array.from({ length: taps }, (_, i) => Math.cos(Math.PI * rough * i));
    const square = input.reduce((sum, value) => sum + value * value, 0);
    const beside = input.slice(1).reduce((sum, value, i) => sum + value * input[i], 0);
    const ratio = Math.sqrt(Math.max(0, 1 + (2 * rho * beside) / square));
    input.forEach((value, i) => {
      make("rect", { x: 30 + 32 * i, y: Math.min(110, 110 - 70 * value), width: 18, height: Math.max(1, Math.abs(70 * value)), class: "fig-quiet" }, svg);
    });
    text(svg, 30, 24, "input under the kernel");
    text(svg, 30, 214, rough < 0.3 ? "smooth" : rough > 0.7 ? "rough" : "between", { class: "fig-text fig-strong" });
    const curve = (sigma, kind) => {
      const points = Array.from({ length: 81 }, (_, i) => (i - 40) / 10).map((z) => `${480 + 32 * z},${190 - (70 / sigma) * Math.exp((-z * z) / (2 * sigma * sigma))}`);
      make("polyline", { points: points.join(" "), class: kind }, svg);
    };
    curve(1, "fig-curve-quiet");
    curve(Math.max(ratio, 0.12), "fig-curve");
    text(svg, 480, 24, "noise of the output", { "text-anchor": "middle" });
    text(svg, 480, 214, `${minus(ratio)} × as wide`, { "text-anchor": "middle", class: "fig-text fig-strong" });
    text(svg, 480, 240, "as without correlation (grey)", { "text-anchor": "middle" });
    return `With ρ = ${minus(rho)} and a ${rough < 0.3 ? "smooth" : rough > 0.7 ? "rough" : "half rough"} input, the output's standard deviation is ${minus(ratio)} times that of uncorrelated weights.`;
  });
}

const figures = { covariance, "moving-average": movingAverage, convolution };
for (const figure of document.querySelectorAll("figure[data-figure]")) figures[figure.dataset.figure](figure);
