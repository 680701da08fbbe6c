// The third tab: the run's tables, its training curve, and its test images, filtered.

import { ask, complain, newest } from "./api.js";
import { fillTable, percent, shape } from "./shapes.js";

const byId = (id) => document.getElementById(id);

export function startRun(run, tryImage) {
  byId("run-name").textContent = run.name;
  byId("run-facts").textContent = `Trained on ${run.data}; ${run.test_images.toLocaleString("en")} test images that it has not learned from.`;
  const rows = run.posterior.map((row) => [row.name, row.weights.toLocaleString("en"), row.tau.toFixed(3), row.rho.toFixed(3)]);
  fillTable(byId("posterior").tBodies[0], rows, [1, 2, 3]);
  drawLearning(run.curve);
  const filter = byId("filter");
  for (const name of ["true", "predicted"]) {
    for (const each of run.classes) filter.elements[name].append(new Option(each));
  }
  const refresh = newest(() => showGallery(filter, tryImage));
  filter.addEventListener("change", refresh);
  filter.addEventListener("submit", (event) => event.preventDefault());
  return refresh;
}

async function showGallery(filter, tryImage) {
  const wanted = [...new FormData(filter)].filter(([, value]) => value !== "");
  try {
    let found = await ask("/api/gallery", { query: Object.fromEntries(wanted) });
    while (found.looked_at < found.of) {
      byId("gallery-status").textContent = `Asking about the test images: ${found.looked_at} of ${found.of} …`;
      await new Promise((done) => setTimeout(done, 700));
      found = await ask("/api/gallery", { query: Object.fromEntries(wanted) });
    }
    fillTable(byId("scores").tBodies[0], found.scores);
    fillTable(byId("counts").tBodies[0], found.counts, [2, 3]);
    const none = filter.elements.kind.value === "confidently wrong" ? "None: nothing that it was sure of was wrong." : "None of these.";
    byId("gallery-status").textContent = found.images.length ? `${found.images.length} shown. Choose one to ask about it.` : none;
    byId("gallery").replaceChildren(...found.images.map((image) => card(image, tryImage)));
    complain(null);
  } catch (error) {
    complain(error);
  }
}

function card(image, tryImage) {
  const item = document.createElement("li"), button = document.createElement("button"), picture = new Image();
  button.type = "button";
  picture.src = `data:image/png;base64,${image.png}`;
  picture.alt = `Test image ${image.number}`;
  const lines = [`taken for ${image.predicted}, ${percent(image.probability)}`, `in truth ${image.true}`, image.certain ? "quite certain" : "uncertain"];
  button.append(picture, ...lines.map((words) => Object.assign(document.createElement("span"), { textContent: words })));
  if (image.predicted !== image.true) button.children[2].className = "wrong";
  button.addEventListener("click", () => tryImage(image.number));
  item.append(button);
  return item;
}

function drawLearning(curve) {
  const picture = byId("learning"), wide = 480, high = 220, left = 44, low = 28;
  const most = Math.max(...curve.map((each) => each.nll)), last = curve.at(-1)?.iteration ?? 1;
  const x = (each) => left + (each.iteration / last) * (wide - left - 10), y = (nll) => 10 + (1 - nll / most) * (high - low - 10);
  shape(picture, "line", { class: "axis", x1: left, x2: wide - 10, y1: y(0), y2: y(0) });
  for (const share of [0, 0.5, 1]) shape(picture, "text", { x: left - 6, y: y(share * most) + 4, "text-anchor": "end" }, (share * most).toFixed(2));
  shape(picture, "text", { x: wide - 10, y: high - 8, "text-anchor": "end" }, `iteration ${last.toLocaleString("en")}`);
  shape(picture, "text", { x: wide - 10, y: 20, "text-anchor": "end" }, "surprise per training image, nats (NLL)");
  shape(picture, "path", { class: "mean", d: `M${curve.map((each) => `${x(each).toFixed(1)} ${y(each.nll).toFixed(1)}`).join("L")}` });
  picture.setAttribute("aria-label", `Training curve: NLL from ${curve[0]?.nll.toFixed(2)} to ${curve.at(-1)?.nll.toFixed(2)} nats over ${last} iterations`);
}
