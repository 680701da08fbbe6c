"""Draw the picture of docs/design.md: the rooms, and the ways of a step, a question and an experiment through them.

python docs/design_picture.py

`tests/test_architecture.py` compares it with the rooms and files there are, and with the tables of docs/design.md.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path, PurePosixPath

PICTURE = Path(__file__).parent / "images" / "design.svg"

ROOMS = {  # in their order, with what they are for in two short lines
    "posterior": ("the law: families,", "draws, divergence"),
    "nn": ("networks under", "a draw"),
    "inference": ("objective, step,", "fit"),
    "prediction": ("predict, intervals,", "certain or not"),
    "distributed": ("several processes", "as one"),
    "tables": ("rows to intervals", "that hold"),
    "sklearn": ("scikit-learn's", "estimators"),
    "integrations": ("other people's", "trainers, logs"),
    "plots": ("pictures", ""),
    "report": ("the HTML page", ""),
    "data": ("data sets", ""),
    "runs": ("folders, resume,", "evaluation"),
    "recipes": ("the paper's", "settings, digits"),
    "own": ("your own tables", "and images"),
    "serve": ("the page, its", "JSON interface"),
    "cli": ("the command", ""),
}

JOURNEYS = {  # the files that each goes through, in the order of docs/design.md
    "Train a step": (
        "inference/fit.py",
        "inference/step.py",
        "inference/objective.py",
        "inference/estimator.py",
        "nn/module.py",
        "posterior/family.py",
        "posterior/draw/",
        "nn/stage.py",
        "nn/twin.py",
        "inference/likelihood.py",
    ),
    "Ask a question": (
        "prediction/predict.py",
        "prediction/inputs.py",
        "prediction/sampled.py",
        "nn/module.py",
        "posterior/family.py",
        "posterior/draw/",
        "nn/stage.py",
        "nn/twin.py",
        "prediction/source.py",
        "prediction/predictive.py",
        "report/classification_page.py",
    ),
    "Run an experiment": (
        "cli.py",
        "recipes/recipe_run.py",
        "recipes/recipe_trainer.py",
        "runs/session.py",
        "runs/trainer.py",
        "inference/step.py",
        "runs/evaluation.py",
        "prediction/predict.py",
    ),
}
COLOURS = ("#0072b2", "#d55e00", "#00795a")

_PITCH, _BOX, _LEFT = 88, 82, 10  # of the rooms' boxes
_TOP, _ROW, _GAP = 128, 21, 18  # where the journeys begin, from stop to stop, from journey to journey
_WIDTH = 2 * _LEFT + _PITCH * (len(ROOMS) - 1) + _BOX


def picture() -> str:
    """The whole as SVG."""
    height = _TOP + sum(_ROW * len(stops) + _GAP for stops in JOURNEYS.values()) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" role="img">',
        "<title>The rooms of the package from left to right, and below them the ways of a training step, a question "
        "and an experiment</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        *_arrow_heads(),
        _text(_LEFT, 22, "src/tribayes: a room imports only from those to its left", 15, "start"),
        *_rooms(height - 34),
    ]
    top = _TOP
    for (name, stops), colour in zip(JOURNEYS.items(), COLOURS, strict=True):
        lines += _journey(name, stops, colour, top)
        top += _ROW * len(stops) + _GAP
    beside = "beside the wheel, imported by nobody in it: reproduction, benchmarks, pages, examples"
    return "\n".join([*lines, _text(_LEFT, height - 12, beside, 13, "start"), "</svg>"]) + "\n"


def _arrow_heads() -> list[str]:
    heads = [
        f'<marker id="head{number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
        for number, colour in enumerate(COLOURS)
    ]
    return ["<defs>", *heads, "</defs>"]


def _rooms(bottom: int) -> list[str]:
    lines = []
    for number, (room, words) in enumerate(ROOMS.items()):
        left, middle = _LEFT + _PITCH * number, _middle(room)
        lines += [
            f'<line x1="{middle}" y1="106" x2="{middle}" y2="{bottom}" stroke="#eee" stroke-width="2"/>',
            f'<rect x="{left}" y="36" width="{_BOX}" height="70" rx="6" fill="#f3f4f6" stroke="#555"/>',
            _text(middle, 60, room, 12.5, weight="bold"),
            *(_text(middle, 79 + 14 * line, part, 9) for line, part in enumerate(words) if part),
        ]
    return lines


def _middle(room: str) -> float:
    return _LEFT + _PITCH * list(ROOMS).index(room) + _BOX / 2


def _journey(name: str, stops: tuple[str, ...], colour: str, top: int) -> list[str]:
    number = COLOURS.index(colour)
    lines = [f'<line x1="{_LEFT}" y1="{top - 14}" x2="{_WIDTH - _LEFT}" y2="{top - 14}" stroke="#ddd"/>']
    away = "end" if _middle(room_of(stops[0])) < _WIDTH / 2 else "start"
    lines.append(_text(_WIDTH - _LEFT if away == "end" else _LEFT, top + 6, name, 15, away, "bold", colour))
    places = [(_middle(room_of(stop)), top + _ROW * row, _label(stop)) for row, stop in enumerate(stops)]
    for (x, y, label), (then, below, _) in pairwise(places):
        side = x + (_half(label) if then > x else -_half(label))
        way = f"M{x},{y + 8} L{x},{below - 9}" if then == x else f"M{side},{y} L{then},{y} L{then},{below - 9}"
        lines.append(
            f'<path d="{way}" stroke="{colour}" stroke-width="1.4" fill="none" marker-end="url(#head{number})"/>'
        )
    for x, y, label in places:
        half = _half(label)
        lines.append(
            f'<rect x="{x - half:.1f}" y="{y - 8}" width="{2 * half:.1f}" height="16" rx="8" '
            f'fill="#fff" stroke="{colour}"/>' + _text(x, y + 4, label, 11.5)
        )
    return lines


def room_of(stop: str) -> str:
    """The room that a file is in; `cli.py` is one by itself."""
    return stop.partition("/")[0].removesuffix(".py")


def _label(stop: str) -> str:
    return "draw/" if stop.endswith("/") else PurePosixPath(stop).stem


def _half(label: str) -> float:
    return 3.2 * len(label) + 9


def _text(
    x: float,
    y: float,
    words: str,
    size: float,
    anchor: str = "middle",
    weight: str = "normal",
    colour: str = "#222",
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(words)}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
