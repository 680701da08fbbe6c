// The third tab: the run's tables, its training curve, and its test images, filtered.

import { ask, complain, newest } from "./api.js";
import { chanceOf, fillTable, paint, shape, widthOf, writerOf } from "./shapes.js";

const byId = (id) => document.getElementById(id);

export function startRun(run, tryExample) {
  const count = (run.test_images ?? run.test_rows).toLocaleString("en"), things = run.kind === "table" ? "rows" : "images";
  byId("run-name").textContent = run.name;
  byId("run-facts").textContent = `Trained on ${run.data}; ${count} test ${things} that it has not learned from.`;
  const rows = run.posterior.map((row) => [row.name, row.weights.toLocaleString("en"), row.tau.toFixed(3), row.rho.toFixed(3)]);
  fillTable(byId("posterior").tBodies[0], rows, [1, 2, 3]);
  const filter = byId("filter");
  for (const name of ["true", "predicted"]) {
    for (const each of run.classes) filter.elements[name].append(new Option(each));
  }
  const refresh = newest(() => showGallery(run, filter, tryExample));
  filter.addEventListener("change", refresh);
  filter.addEventListener("submit", (event) => event.preventDefault());
  paint(byId("learning"), () => drawLearning(run.curve));
  return refresh;
}

async function showGallery(run, filter, tryExample) {
  const wanted = [...new FormData(filter)].filter(([, value]) => value !== "");
  try {
    let found = await ask("/api/gallery", { query: Object.fromEntries(wanted) });
    while (found.looked_at < found.of) {
      byId("gallery-status").textContent = `Asking about the test: ${found.looked_at} of ${found.of} …`;
      await new Promise((done) => setTimeout(done, 700));
      found = await ask("/api/gallery", { query: Object.fromEntries(wanted) });
    }
    fillTable(byId("scores").tBodies[0], found.scores);
    fillTable(byId("counts").tBodies[0], found.counts, [2, 3]);
    const none = filter.elements.kind.value === "confidently wrong" ? "None: nothing that it was sure of was wrong." : "None of these.";
    const shown = [...found.images.map(imageCard), ...found.rows.map(rowCard)];
    byId("gallery-status").textContent = shown.length ? `${counted(run, found, shown.length)} Choose one to ask about it.` : none;
    byId("gallery").replaceChildren(...shown.map(([number, ...inside]) => card(inside, () => tryExample(number))));
    complain(null);
  } catch (error) {
    complain(error);
  }
}

// How many there are, and not only on the page; of a large test only a part was asked about, and it has the figures above.
export function counted(run, { found, of }, shown) {
  const all = run.test_images ?? run.test_rows, write = (count) => count.toLocaleString("en");
  const part = of < all ? ` Only the first ${write(of)} of the test were asked about.` : "";
  return `${shown < found ? `The first ${shown} of ${write(found)}` : shown} shown.${part}`;
}

function card(inside, chosen) {
  const item = document.createElement("li"), button = document.createElement("button");
  button.type = "button";
  button.append(...inside);
  button.addEventListener("click", chosen);
  item.append(button);
  return item;
}

const line = (textContent, className = "") => Object.assign(document.createElement("span"), { textContent, className });
const sureness = (shown) => line(shown.certain ? "quite certain" : "uncertain");

function rowCard(shown) {
  const cells = Object.entries(shown.row).slice(0, 6).map(([name, value]) => `${name} ${value ?? "not known"}`).join(", ");
  const wrong = shown.interval ? shown.true < shown.interval[0] || shown.true > shown.interval[1] : shown.true !== shown.predicted;
  const write = shown.interval ? writerOf(shown.interval) : String, truth = line(`in truth ${write(shown.true)}`, wrong ? "wrong" : "");
  const said = shown.interval ? `${write(shown.predicted)} (${shown.interval.map(write).join(" to ")})` : `${shown.predicted}, ${chanceOf(shown.probability)}`;
  return [shown.number, line(said), truth, sureness(shown), line(cells, "help")];
}

function imageCard(image) {
  const picture = new Image();
  picture.src = `data:image/png;base64,${image.png}`;
  picture.alt = `Test image ${image.number}`;
  const truth = line(`in truth ${image.true}`, image.predicted === image.true ? "" : "wrong");
  return [image.number, picture, line(`taken for ${image.predicted}, ${chanceOf(image.probability)}`), truth, sureness(image)];
}

// The NLL of values may fall below 0, and does where they are learned well.
export function drawLearning(curve) {
  const picture = byId("learning"), wide = widthOf(picture), high = 220, left = 44, low = 28;
  const values = curve.map((each) => each.nll), most = Math.max(0, ...values), least = Math.min(0, ...values), last = curve.at(-1)?.iteration ?? 1;
  const x = (each) => left + (each.iteration / last) * (wide - left - 10), y = (nll) => 34 + ((most - nll) / (most - least || 1)) * (high - low - 34);
  picture.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  picture.replaceChildren();
  shape(picture, "line", { class: "axis", x1: left, x2: wide - 10, y1: y(least), y2: y(least) });
  for (const mark of [least, (least + most) / 2, most]) shape(picture, "text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, mark.toFixed(2));
  shape(picture, "text", { x: wide - 10, y: high - 8, "text-anchor": "end" }, `iteration ${last.toLocaleString("en")}`);
  shape(picture, "text", { x: wide - 10, y: 14, "text-anchor": "end" }, "surprise per training example, nats (NLL)");
  shape(picture, "path", { class: "mean", d: `M${curve.map((each) => `${x(each).toFixed(1)} ${y(each.nll).toFixed(1)}`).join("L")}` });
  picture.setAttribute("aria-label", `Training curve: NLL from ${curve[0]?.nll.toFixed(2)} to ${curve.at(-1)?.nll.toFixed(2)} nats over ${last} iterations`);
}
