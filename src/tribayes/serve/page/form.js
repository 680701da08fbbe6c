// The first tab of a run on a table: a form made from its columns, and the answer at once.

import { showAnswer, showNothing, showRefusal } from "./answer.js";
import { ask, complain, newest } from "./api.js";
import { startOptions } from "./options.js";
import { showValue } from "./value.js";

const byId = (id) => document.getElementById(id);

export function startForm(run) {
  const form = byId("row"), source = byId("row-source"), panel = byId("panel-draw"), ofValues = run.classes.length === 0;
  byId("tab-draw").textContent = "Ask";
  byId("row-card").hidden = false;
  for (const id of ["image-card", "harder"]) byId(id).hidden = true;
  for (const each of document.querySelectorAll(".asked-thing")) each.textContent = "row";
  for (const each of document.querySelectorAll(".of-values")) each.hidden = !ofValues;
  for (const each of document.querySelectorAll(".of-classes")) each.hidden = ofValues;
  showNothing(run.classes, "Nothing yet", "Fill the form, or take a test row.");
  const options = startOptions(run, () => refresh());
  const cells = run.columns.map((column) => cellOf(column, form));

  const refresh = newest(async () => {
    const odd = run.columns.find((_, place) => !cells[place].valid());
    if (odd) {
      showRefusal(run.classes, new Error(`${odd.name} holds what is no number; correct it, or leave it empty.`));
      return;
    }
    panel.setAttribute("aria-busy", true);
    try {
      const row = Object.fromEntries(run.columns.map(({ name }, place) => [name, cells[place].value()]));
      const answer = await ask("/api/row", { query: options(), body: JSON.stringify({ row }), type: "application/json" });
      if (ofValues) showValue(answer);
      else showAnswer(answer, answer.changes.join("; "));
      complain(null);
    } catch (error) {
      showRefusal(run.classes, error);
    } finally {
      panel.setAttribute("aria-busy", false);
    }
  });

  async function showTestRow(number) {
    try {
      const found = await ask(`/api/test/${number}`);
      run.columns.forEach(({ name }, place) => cells[place].put(found.row[name]));
      const truth = ofValues ? found.true.toLocaleString("en", { maximumSignificantDigits: 15 }) : found.true;
      source.textContent = `Test row ${number}, in truth ${run.target} = ${truth}.`;
      refresh();
    } catch (error) {
      complain(error);
    }
  }

  form.addEventListener("input", () => {
    source.textContent = "";
    refresh();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("another-row").addEventListener("click", () => showTestRow(Math.floor(Math.random() * run.test_rows)));
  return showTestRow;
}

// A labelled cell: a number, or a choice of the categories that were seen; empty where it is not known.
function cellOf(column, form) {
  const label = document.createElement("label"), name = document.createElement("span");
  name.textContent = column.name;
  const isNumber = column.kind === "number", cell = document.createElement(isNumber ? "input" : "select");
  const hint = document.createElement("small");
  // Networks may agree about what is unlike all that they learned from: beside the cell one sees that it is.
  const compare = () => {
    const outside = cell.value !== "" && (Number(cell.value) < column.low || Number(cell.value) > column.high);
    hint.className = outside ? "outside" : "";
    hint.textContent = `${outside ? "outside what it " : ""}learned from${outside ? ":" : ""} ${column.low} to ${column.high}`;
  };
  if (isNumber) {
    Object.assign(cell, { type: "number", step: "any", placeholder: "not known" });
    cell.addEventListener("input", compare);
    compare();
    name.append(hint);
  } else {
    cell.append(new Option("not known", ""), ...column.categories.map((word, place) => new Option(word, place)));
  }
  label.append(name, cell);
  form.append(label);
  const known = (value) => (isNumber ? value : column.categories.indexOf(value)), given = () => (isNumber ? Number(cell.value) : column.categories[cell.value]);
  const put = (value) => {
    cell.value = value === null ? "" : known(value);
    if (isNumber) compare();
  };
  return { valid: () => cell.checkValidity(), value: () => (cell.value === "" ? null : given()), put };
}
