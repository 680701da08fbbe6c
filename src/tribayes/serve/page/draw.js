// The first tab: an image on the pad, options beside it, and the answer at once.

import { showAnswer, showNothing, showRefusal } from "./answer.js";
import { ask, complain, newest, say } from "./api.js";
import { startOptions } from "./options.js";
import { Pad } from "./pad.js";
import { onSlide } from "./shapes.js";

const byId = (id) => document.getElementById(id);
const MOST_BYTES = 10 * 2 ** 20;

export function startDrawing(run) {
  let file = null; // an uploaded one is sent as it is, not as the pad shows it
  const source = byId("source");

  const options = () => ({
    ...asked(),
    ...Object.fromEntries([...byId("distortions").querySelectorAll("input")].map((input) => [input.name, input.value])),
  });

  const panel = byId("panel-draw"), showEmpty = () => showNothing(run.classes, "Nothing yet", "Draw, or take a test image.");
  showEmpty();
  const refresh = newest(async () => {
    if (!pad.inked && !file) {
      showEmpty();
      say("Nothing yet.");
      complain(null);
      return;
    }
    panel.setAttribute("aria-busy", true);
    try {
      const body = file ?? (await pad.file());
      const type = body.type.startsWith("image/") ? body.type : "image/unknown";
      const answer = await ask("/api/predict", { query: options(), body, type });
      showAnswer(answer, body === file ? answer.changes.join("; ") : "");
      complain(null);
    } catch (error) {
      showRefusal(run.classes, error);
    } finally {
      panel.setAttribute("aria-busy", false);
    }
  });

  const pad = new Pad(byId("pad"), byId("cursor"), byId("pad-hint"), (words) => {
    file = null;
    source.textContent = words;
    refresh();
  }, (words) => { byId("pen").textContent = words; }); // not where verdicts are spoken: neither may silence the other
  // whole pixels of the network, so that test images stay exact; where nothing is drawn, the network's own
  const [, high, wide] = run.shape, fine = run.stroke === null ? 1 : Math.floor(280 / wide);
  pad.resize(fine * wide, fine * high);
  byId("pad").classList.toggle("plain", run.stroke === null);

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
  const asked = startOptions(run, refresh);
  pad.width = run.stroke ?? pad.width;
  if (run.stroke === null) {
    byId("tab-draw").textContent = "Ask";
    byId("pad-title").textContent = "Choose an image";
  }

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
