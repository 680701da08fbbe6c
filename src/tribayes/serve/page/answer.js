// An answer of the networks: the verdict, boxplots by class, the numbers, and where the doubt comes from.

import { complain, say } from "./api.js";
import { chanceOf, fillTable, paint, percent, shape, widthOf } from "./shapes.js";

const byId = (id) => document.getElementById(id);
const MOST_DOTS = 400, MOST_ROWS = 20, MOST_NAME = 0.35, LETTER = 7.5; // of names the share of the width, and of a letter

export function showNothing(classes, title, words) {
  const seen = byId("seen");
  showVerdict("none", title, words);
  paint(byId("boxes"), () => drawBoxes({ classes }, title));
  seen.getContext("2d").clearRect(0, 0, seen.width, seen.height);
  byId("changes").textContent = "";
  fillTable(byId("numbers").tBodies[0], []);
  for (const name of ["aleatoric", "epistemic", "total"]) byId(`${name}-value`).textContent = "–";
  for (const name of ["aleatoric", "epistemic"]) byId(name).style.width = 0;
  byId("doubt").setAttribute("aria-label", "No doubt measured yet");
}

// What was said of something else must not stay beside what was refused.
export function showRefusal(classes, error) {
  complain(error);
  showNothing(classes, "No answer", error.message); // which stays when another tab takes the message away
}

export function showAnswer(answer, changes) {
  const { kind, title, words } = verdictOf(answer);
  showVerdict(kind, title, words);
  say(`${title}. ${words}`);
  paint(byId("boxes"), () => drawBoxes(answer, `Probabilities by class. ${title}. ${words}`));
  showNumbers(answer);
  showDoubt(answer);
  if (answer.seen) showSeen(answer.seen);
  byId("changes").textContent = changes;
}

function verdictOf(answer) {
  const best = answer.classes.indexOf(answer.label);
  const chance = chanceOf(answer.probabilities[best]);
  if (answer.intervals === null) {
    const words = `It says ${chance}. Being alone, it cannot say how sure it is.`;
    return { kind: "none", title: `${answer.label}, says one network`, words };
  }
  const said = [...new Set(answer.intervals[best].map(chanceOf))].join(" to ");
  const level = `${Number((100 * answer.level).toFixed(1))} %`;
  if (answer.certain === false && answer.hesitates.length === 0) {
    return { kind: "unsure", title: `${answer.label}? Uncertain`, words: `${answer.changes.join("; ")}.` };
  }
  if (answer.certain) {
    const words = `Probability ${chance}. ${level} of the ${answer.samples} networks say ${said}, and no other class reaches so high.`;
    return { kind: "sure", title: `${answer.label}: quite certain`, words };
  }
  const between = listed(answer.hesitates);
  const words = `It hesitates between ${between}. For ${answer.label}, ${level} of the ${answer.samples} networks say ${said}.`;
  return { kind: "unsure", title: `${answer.label}? Uncertain`, words };
}

function listed(names) {
  const shown = names.length > 4 ? [...names.slice(0, 3), `${names.length - 3} others`] : names;
  return shown.length === 1 ? shown[0] : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

// On a narrow screen it comes first, and stays in sight while one draws and moves sliders.
const narrow = matchMedia("(max-width: 720px)");
function place() {
  if (narrow.matches) byId("panel-draw").prepend(byId("verdict"));
  else byId("says").after(byId("verdict"));
}
narrow.addEventListener("change", place);
place();

export function showVerdict(kind, title, words) {
  const place = byId("verdict");
  place.className = `verdict ${kind}`;
  place.children[0].textContent = title;
  place.children[1].textContent = words;
}

function drawBoxes(answer, title) {
  const picture = byId("boxes"), wide = widthOf(picture), right = 14, high = 30;
  const rows = likeliest(answer), most = Math.floor((MOST_NAME * wide) / LETTER); // letters of a name
  const names = rows.map((row) => shortened(answer.classes[row], most));
  const left = 24 + LETTER * Math.max(0, ...names.map((name) => name.length)), low = high * rows.length;
  const across = (share) => left + share * (wide - left - right);
  picture.setAttribute("viewBox", `0 0 ${wide} ${low + 26}`);
  picture.replaceChildren();
  shape(picture, "title", { id: "boxes-title" }, title);
  rows.forEach((row, place) => {
    const name = answer.classes[row], top = place * high, middle = top + high / 2;
    const marked = answer.hesitates?.includes(name), chosen = name === answer.label;
    if (marked || (chosen && answer.certain)) {
      shape(picture, "rect", { class: marked ? "hesitating" : "settled", x: 0, y: top + 1, width: wide, height: high - 2, rx: 5 });
    }
    shape(picture, "text", { class: `name${chosen ? " chosen" : ""}`, x: left - 12, y: middle + 5, "text-anchor": "end" }, names[place]);
    shape(picture, "line", { class: "axis", x1: across(0), x2: across(1), y1: middle, y2: middle });
    for (const [number, draw] of (answer.draws ?? []).slice(0, MOST_DOTS).entries()) {
      const aside = (((number * 7) % 17) / 16 - 0.5) * (high - 12); // spread over the row, always the same way
      shape(picture, "circle", { class: "dot", cx: across(draw[row]), cy: middle + aside, r: 1.8 });
    }
    if (answer.intervals) drawBox(picture, answer.intervals[row], answer.quartiles[row], across, middle);
    if (!answer.probabilities) return;
    const average = across(answer.probabilities[row]);
    for (const edge of [" edge", ""]) {
      shape(picture, "line", { class: `average${edge}`, x1: average, x2: average, y1: middle - 8, y2: middle + 8 });
    }
  });
  for (const share of rows.length ? [0, 0.25, 0.5, 0.75, 1] : []) {
    const anchor = share === 1 ? "end" : share === 0 ? "start" : "middle";
    shape(picture, "text", { x: across(share), y: low + 18, "text-anchor": anchor }, percent(share));
  }
  byId("likeliest").hidden = rows.length === answer.classes.length;
  byId("likeliest").textContent = `The ${rows.length} likeliest of ${answer.classes.length} classes; the numbers are of all.`;
}

// The rows to draw, in the classes' order; of very many classes those that matter.
function likeliest({ classes, probabilities }) {
  const rows = [...classes.keys()];
  if (rows.length <= MOST_ROWS) return rows;
  if (probabilities) rows.sort((one, other) => probabilities[other] - probabilities[one]);
  return rows.slice(0, MOST_ROWS).sort((one, other) => one - other);
}

const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

function drawBox(picture, [lower, upper], [first, , third], across, middle) {
  shape(picture, "rect", { class: "box", x: across(first), y: middle - 7, width: Math.max(1, across(third) - across(first)), height: 14, rx: 2 });
  shape(picture, "line", { class: "whisker", x1: across(lower), x2: across(upper), y1: middle, y2: middle });
  for (const end of [lower, upper]) shape(picture, "line", { class: "whisker", x1: across(end), x2: across(end), y1: middle - 6, y2: middle + 6 });
}

function showNumbers({ classes, probabilities, intervals }) {
  const rows = classes.map((name, row) => {
    const interval = intervals ? intervals[row].map((bound) => percent(bound, 1)).join(" to ") : "none";
    return [name, percent(probabilities[row], 1), interval];
  });
  fillTable(byId("numbers").tBodies[0], rows, [1, 2]);
}

function showDoubt({ entropy, classes }) {
  const most = Math.log(classes.length);
  for (const name of ["aleatoric", "epistemic"]) byId(name).style.width = `${(100 * entropy[name]) / most}%`;
  for (const name of ["aleatoric", "epistemic", "total"]) byId(`${name}-value`).textContent = `${entropy[name].toFixed(2)} nats`;
  byId("total-value").textContent += ` of at most ${most.toFixed(2)}`;
  const thing = document.querySelector("#panel-draw .asked-thing").textContent; // an image, or a table's row
  const words = `In the ${thing} ${entropy.aleatoric.toFixed(2)}, in the network ${entropy.epistemic.toFixed(2)}, of at most ${most.toFixed(2)} nats`;
  byId("doubt").setAttribute("aria-label", words);
}

function showSeen(seen) {
  const canvas = byId("seen"), high = seen[0].length, wide = seen[0][0].length;
  Object.assign(canvas, { width: wide, height: high });
  const pixels = new ImageData(wide, high);
  for (let place = 0; place < wide * high; place++) {
    const [row, column] = [Math.floor(place / wide), place % wide];
    const colours = seen.map((table) => 255 * table[row][column]);
    pixels.data.set([colours[0], colours[1] ?? colours[0], colours[2] ?? colours[0], 255], 4 * place);
  }
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}
