// How it is asked: the level of the intervals, how many networks, and which.

import { onSlide } from "./shapes.js";

const byId = (id) => document.getElementById(id);

// Offer what the run has, call `changed` whenever something else is chosen, and return a function: the query of now.
export function startOptions(run, changed) {
  byId("samples").max = byId("samples").value = run.samples;
  onSlide(byId("samples"), changed);
  onSlide(byId("level"), () => {
    for (const each of document.querySelectorAll(".level")) each.textContent = `${byId("level").value} %`;
    changed();
  });
  for (const choice of document.querySelectorAll("input[name=network]")) {
    choice.closest("label").hidden = !run.networks.includes(choice.value);
    choice.addEventListener("change", changed);
  }
  for (const each of ["added", "with-correlations"]) byId(each).hidden = !run.networks.includes("uncorrelated");
  byId("class-count").textContent = run.classes.length;
  byId("most-doubt").textContent = Math.log(run.classes.length).toFixed(2);
  for (const each of document.querySelectorAll(".count")) each.textContent = run.samples;
  return () => ({
    level: (byId("level").value / 100).toFixed(3), // a plain quotient of 99.9 is a little more than the most there is
    samples: Math.min(run.samples, Number(byId("samples").value)),
    network: document.querySelector("input[name=network]:checked").value,
    draws: true,
  });
}
