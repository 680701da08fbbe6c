"""Draw the README's picture: one digit the demo's network is sure of, and one it is not.

python docs/readme_picture.py
"""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

from matplotlib.figure import Figure

import tribayes as tb
from tribayes.data import load_digits
from tribayes.plots import output_boxplot

DOCS = Path(__file__).parent


def main() -> None:
    data = load_digits()
    train = run_path(str(DOCS.parent / "examples" / "digits.py"))["train"]
    model, _ = train(data)
    pred = tb.predict(model, data.test_images)
    correct = pred.correct(data.test_labels)
    sure = int((pred.confidence * correct).argmax())
    unsure = int((pred.epistemic * ~correct).argmax())
    for name, rows, size in (("readme", 1, (11, 3.4)), ("readme-narrow", 2, (5.5, 6.8))):
        figure = Figure(figsize=size, layout="constrained")
        for axes, example in zip(figure.subplots(rows, 2 // rows), (sure, unsure), strict=True):
            image, target = data.test_images[example], int(data.test_labels[example])
            output_boxplot(pred, example, image=image, target=target, ax=axes)
        figure.savefig(DOCS / "images" / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
