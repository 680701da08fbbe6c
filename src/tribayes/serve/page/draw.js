// The first tab: an image on the pad, options beside it, and the answer at once.

import { showAnswer, showNothing } from "./answer.js";
import { ask, complain, newest, say } from "./api.js";
import { Pad } from "./pad.js";
import { onSlide } from "./shapes.js";

const byId = (id) => document.getElementById(id);
const MOST_BYTES = 10 * 2 ** 20;

export function startDrawing(run) {
  let file = null; // an uploaded one is sent as it is, not as the pad shows it
  const source = byId("source");

  const options = () => ({
    level: Number(byId("level").value) / 100,
    samples: Math.min(run.samples, Number(byId("samples").value)),
    network: document.querySelector("input[name=network]:checked").value,
    draws: true,
    ...Object.fromEntries([...byId("distortions").querySelectorAll("input")].map((input) => [input.name, input.value])),
  });

  const refresh = newest(async () => {
    if (!pad.inked && !file) {
      showNothing();
      return;
    }
    try {
      const body = file ?? (await pad.file());
      const type = body.type.startsWith("image/") ? body.type : "image/unknown";
      const answer = await ask("/api/predict", { query: options(), body, type });
      showAnswer(answer, body === file ? answer.changes.join("; ") : "");
      complain(null);
    } catch (error) {
      complain(error);
    }
  });

  const pad = new Pad(byId("pad"), byId("cursor"), byId("pad-hint"), (words) => {
    file = null;
    source.textContent = words;
    refresh();
  }, say);
  pad.resize(Math.floor(280 / run.shape[1]) * run.shape[1]); // whole pixels of the network, so that test images stay exact

  byId("clear").addEventListener("click", () => pad.clear());
  byId("another").addEventListener("click", () => showTestImage(Math.floor(Math.random() * run.test_images)));
  byId("upload").addEventListener("change", async (event) => {
    const [chosen] = event.target.files;
    event.target.value = "";
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) {
      complain(new Error(`${chosen.name} has ${(chosen.size / 2 ** 20).toFixed(0)} MB; at most 10 are taken.`));
      return;
    }
    const shown = await createImageBitmap(chosen).catch(() => null); // where the browser cannot show it, the server may
    if (shown) pad.show(shown, "");
    file = chosen;
    source.textContent = `The file ${chosen.name}.`;
    refresh();
  });

  const shows = [...byId("distortions").querySelectorAll("input")].map((input) => [input, onSlide(input, refresh)]);
  byId("undistort").addEventListener("click", () => {
    for (const [input, show] of shows) {
      input.value = 0;
      show();
    }
    refresh();
  });
  byId("samples").max = byId("samples").value = run.samples;
  onSlide(byId("samples"), refresh);
  onSlide(byId("level"), () => {
    for (const each of document.querySelectorAll(".level")) each.textContent = `${byId("level").value} %`;
    refresh();
  });
  for (const choice of document.querySelectorAll("input[name=network]")) {
    choice.closest("label").hidden = !run.networks.includes(choice.value);
    choice.addEventListener("change", refresh);
  }
  pad.width = run.stroke ?? pad.width;
  if (run.stroke === null) byId("pad-title").textContent = "Choose an image";
  for (const each of document.querySelectorAll(".count")) each.textContent = run.samples;

  async function showTestImage(number) {
    try {
      const { png, true: name } = await ask(`/api/test/${number}`);
      const image = new Image();
      image.src = `data:image/png;base64,${png}`;
      await image.decode();
      pad.show(image, `Test image ${number}, in truth ${name}.`);
    } catch (error) {
      complain(error);
    }
  }
  return showTestImage;
}
