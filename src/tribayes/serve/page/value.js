// An answer that is a value: the verdict, a line with the networks on it, the numbers, and where the doubt comes from.

import { showVerdict } from "./answer.js";
import { say } from "./api.js";
import { fillTable, paint, percent, shape, widthOf, writerOf } from "./shapes.js";

const byId = (id) => document.getElementById(id);
const MOST_DOTS = 400, HIGH = 130, SIDE = 20, MIDDLE = 55;

export function showValue(answer) {
  const { kind, title, words } = verdictOf(answer);
  showVerdict(kind, title, words);
  say(`${title}. ${words}`);
  paint(byId("boxes"), () => drawLine(answer, `${title}. ${words}`));
  showNumbers(answer);
  showDoubt(answer);
}

const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
const levelOf = (answer) => `${Number((100 * answer.level).toFixed(1))} %`;

function verdictOf(answer) {
  const write = writerOf(answer.interval), title = `${answer.target}: ${write(answer.prediction)}`;
  if (answer.certain === null) return { kind: "none", title: `${title}, says one network`, words: "Being alone, it cannot say how sure it is." };
  const [lower, upper] = answer.interval.map(write), lies = `It lies between ${lower} and ${upper}, with a probability of ${levelOf(answer)}.`;
  if (answer.remark) return { kind: "unsure", title: `${title}? Uncertain`, words: `${answer.remark}. ${lies}` };
  if (answer.certain) return { kind: "sure", title: `${title}, quite certain`, words: lies };
  return { kind: "unsure", title: `${title}? Uncertain`, words: `The spread is among the widest 5 %. ${lies}` };
}

function drawLine(answer, title) {
  const picture = byId("boxes"), draws = (answer.draws ?? []).slice(0, MOST_DOTS);
  const [low, high] = [Math.min(answer.interval[0], ...draws), Math.max(answer.interval[1], ...draws)];
  const wide = widthOf(picture), room = 0.04 * (high - low || 1), span = high - low + 2 * room;
  const write = writerOf(answer.interval), across = (value) => SIDE + ((value - low + room) / span) * (wide - 2 * SIDE);
  picture.setAttribute("viewBox", `0 0 ${wide} ${HIGH}`);
  picture.replaceChildren();
  shape(picture, "title", { id: "boxes-title" }, title);
  for (const [name, bounds] of [["wide", answer.interval], ["narrow", answer.average]]) {
    if (!bounds) continue;
    const [start, end] = bounds.map(across);
    shape(picture, "rect", { class: name, x: start, y: MIDDLE - 40, width: Math.max(1, end - start), height: 80, rx: 4 });
  }
  for (const [number, value] of draws.entries()) {
    const aside = (((number * 7) % 17) / 16 - 0.5) * 60; // spread over the height, always the same way
    shape(picture, "circle", { class: "dot", cx: across(value), cy: MIDDLE + aside, r: 2 });
  }
  const average = across(answer.prediction);
  for (const edge of [" edge", ""]) shape(picture, "line", { class: `average${edge}`, x1: average, x2: average, y1: MIDDLE - 40, y2: MIDDLE + 40 });
  shape(picture, "line", { class: "axis", x1: SIDE, x2: wide - SIDE, y1: MIDDLE + 46, y2: MIDDLE + 46 });
  for (const [place, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const value = low - room + place * span;
    shape(picture, "text", { x: across(value), y: MIDDLE + 66, "text-anchor": anchor }, write(value));
  }
}

function showNumbers(answer) {
  byId("numbers-of").textContent = "what";
  byId("numbers-value").textContent = "value";
  const write = writerOf(answer.interval), range = (bounds) => bounds.map(write).join(" to ");
  const rows = [[`the value, to ${levelOf(answer)}`, write(answer.prediction), range(answer.interval)]];
  if (answer.average) rows.push([`its average, to ${levelOf(answer)}`, write(answer.prediction), range(answer.average)]);
  if (answer.promised) rows.push(["promised to hold 95 %", write(answer.prediction), range(answer.promised)]);
  fillTable(byId("numbers").tBodies[0], rows, [1, 2]);
}

function showDoubt(answer) {
  const total = answer.aleatoric + answer.epistemic || 1;
  byId("total-name").textContent = "together (standard deviation)";
  for (const name of ["aleatoric", "epistemic"]) {
    byId(name).style.width = `${(100 * answer[name]) / total}%`;
    byId(`${name}-value`).textContent = `± ${short(Math.sqrt(answer[name]))}`;
  }
  byId("total-value").textContent = `± ${short(answer.std)}`;
  byId("doubt").setAttribute("aria-label", `Of the variance ${percent(answer.aleatoric / total)} lies in the row, ${percent(answer.epistemic / total)} in the network`);
}
