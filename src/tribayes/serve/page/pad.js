// The drawing pad: light strokes on dark, by mouse, finger or keys.

const STEP = 0.035;

export class Pad {
  constructor(canvas, overlay, hint, changed, said) {
    Object.assign(this, { canvas, overlay, hint, changed, said, inked: false, down: false, finger: null, width: 0.085 }); // of the pen, a share of the side
    this.pen = canvas.getContext("2d", { willReadFrequently: true });
    this.at = { x: 0.5, y: 0.3 };
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => { if (event.pointerId === this.finger) this.finger = null; });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.showCursor());
    canvas.addEventListener("blur", () => { this.down = false; this.showCursor(false); });
    this.wipe();
  }

  resize(width, height) {
    Object.assign(this.canvas, { width, height });
    this.overlay.height = (this.overlay.width * height) / width;
    this.canvas.parentElement.style.aspectRatio = `${width} / ${height}`;
    this.wipe();
  }

  wipe() {
    this.pen.fillStyle = "#000";
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.inked = false;
    this.hint.hidden = false;
  }

  clear() {
    this.wipe();
    this.changed("");
  }

  show(image, source) {
    const { width, height } = this.canvas;
    this.wipe();
    const scale = Math.min(width / image.width, height / image.height);
    this.pen.imageSmoothingEnabled = scale < 1; // a photograph is made small, the pixels of a test image stay blocks
    this.pen.drawImage(image, (width - scale * image.width) / 2, (height - scale * image.height) / 2, scale * image.width, scale * image.height);
    this.inked = true;
    this.hint.hidden = true;
    this.changed(source);
  }

  stroke(from, to) {
    const { width, height } = this.canvas;
    Object.assign(this.pen, { strokeStyle: "#fff", lineWidth: this.width * width, lineCap: "round", lineJoin: "round" });
    this.pen.beginPath();
    this.pen.moveTo(from.x * width, from.y * height);
    this.pen.lineTo(to.x * width + 0.01, to.y * height);
    this.pen.stroke();
    this.inked = true;
    this.hint.hidden = true;
    this.changed("");
  }

  place(event) {
    const bounds = this.canvas.getBoundingClientRect();
    return { x: (event.clientX - bounds.left) / bounds.width, y: (event.clientY - bounds.top) / bounds.height };
  }

  begin(event) {
    if (event.button || this.finger !== null) return; // a second finger or the palm draws nothing
    this.canvas.setPointerCapture(event.pointerId);
    this.finger = event.pointerId;
    this.at = this.place(event);
    this.stroke(this.at, this.at);
  }

  move(event) {
    if (event.pointerId !== this.finger) return;
    for (const each of event.getCoalescedEvents?.() ?? [event]) {
      const next = this.place(each);
      this.stroke(this.at, next);
      this.at = next;
    }
  }

  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in moves) {
      const size = event.shiftKey ? STEP / 4 : STEP;
      const [x, y] = moves[event.key].map((way) => way * size);
      const next = { x: clamp(this.at.x + x), y: clamp(this.at.y + y) };
      if (this.down) this.stroke(this.at, next);
      this.at = next;
    } else if (event.key === " ") {
      this.down = !this.down;
      if (this.down) this.stroke(this.at, this.at);
      this.said(this.down ? "Pen down." : "Pen up.");
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
      this.said("Cleared.");
    } else {
      return;
    }
    event.preventDefault();
    this.showCursor();
  }

  showCursor(visible = true) {
    const pen = this.overlay.getContext("2d");
    const { width, height } = this.overlay;
    pen.clearRect(0, 0, width, height);
    if (!visible || !this.canvas.matches(":focus-visible")) return;
    pen.strokeStyle = this.down ? "#ffb454" : "#6fb3ff";
    pen.lineWidth = 3;
    pen.beginPath();
    pen.arc(this.at.x * width, this.at.y * height, (this.width * width) / 2 + 3, 0, 2 * Math.PI);
    pen.stroke();
  }

  file() {
    return new Promise((done) => this.canvas.toBlob(done, "image/png"));
  }
}

const clamp = (value) => Math.min(0.97, Math.max(0.03, value));
