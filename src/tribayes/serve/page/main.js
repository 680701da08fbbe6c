// The page as a whole: tabs, light and dark, and the wait until the networks are there.

import { ask, complain } from "./api.js";
import { startCurve } from "./curve.js";
import { startDrawing } from "./draw.js";
import { startForm } from "./form.js";
import { startRun } from "./run.js";
import { repaint } from "./shapes.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));
const opened = {};

function open(tab, focus = true) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", chosen);
    each.tabIndex = chosen ? 0 : -1;
    panelOf(each).hidden = !chosen;
  }
  repaint(); // while a picture was hidden its width was not known
  if (focus) tab.focus();
  opened[tab.id]?.();
}

for (const [number, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const places = { ArrowRight: number + 1, ArrowLeft: number - 1 + tabs.length, Home: 0, End: tabs.length - 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    open(tabs[places[event.key] % tabs.length]);
  });
}

const theme = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const dark = (localStorage.getItem("theme") ?? (system.matches ? "dark" : "light")) === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  theme.setAttribute("aria-pressed", dark);
}
theme.addEventListener("click", () => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
});
system.addEventListener("change", paint);
paint();

async function start() {
  try {
    const run = await ask("/api/run");
    const show = run.kind === "table" ? startForm(run) : startDrawing(run);
    startCurve();
    const tryExample = (number) => {
      open(tabs[0]);
      show(number);
    };
    opened["tab-run"] = startRun(run, tryExample);
    await ready();
    complain(null);
    if (!run.stroke) show(0); // of digits alone one can draw what is asked about
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    complain(error);
  }
}

async function ready() {
  for (;;) {
    try {
      return await ask("/readyz");
    } catch (error) {
      if (error.status !== 503) throw error;
      complain(error);
    }
    await new Promise((done) => setTimeout(done, 500));
  }
}

start();
