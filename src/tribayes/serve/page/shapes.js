// Small helpers for SVG, tables and sliders.

export function shape(parent, name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

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
