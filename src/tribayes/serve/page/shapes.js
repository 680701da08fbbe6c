// Small helpers for SVG, tables and sliders.

export function shape(parent, name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// How many units wide to draw, so that words are as large on a phone as on a laptop; of what is not shown yet, a usual width.
export const widthOf = (picture) => Math.max(280, picture.clientWidth || 560);

const painters = new Map();

// Draw a picture now, and again by `repaint` where its width has changed: a phone is turned, a window or a tab opened.
export function paint(picture, work) {
  painters.set(picture, work);
  work();
}

export function repaint() {
  for (const [picture, work] of painters) {
    if (picture.clientWidth && picture.viewBox.baseVal.width !== widthOf(picture)) work();
  }
}
addEventListener("resize", repaint);

export function fillTable(body, rows, numbers = []) {
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell, place) => {
      const made = document.createElement(place === 0 ? "th" : "td");
      if (place === 0) made.scope = "row";
      if (numbers.includes(place)) made.className = "number";
      made.textContent = cell;
      return made;
    }));
    return row;
  }));
}

export function onSlide(input, changed, words = (value) => `${value}${input.dataset.unit ?? ""}`) {
  const shown = input.parentElement.querySelector("output");
  const show = () => {
    shown.textContent = words(Number(input.value));
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => { show(); changed(); });
  show();
  return show;
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;

// A probability in words: rounding makes nothing sure.
export const chanceOf = (share) => (share > 0.99 ? "over 99 %" : share < 0.01 ? "under 1 %" : percent(share));

// How to write numbers of an interval: to four digits of its width, as what lies far from zero, and close together, needs more.
export function writerOf([lower, upper]) {
  const far = Math.max(Math.abs(lower), Math.abs(upper)) / (upper - lower), more = far > 1 && far < Infinity ? Math.floor(Math.log10(far)) : 0;
  return (value) => value.toLocaleString("en", { maximumSignificantDigits: Math.min(4 + more, 17) });
}
