"""docs/images/defaults.svg: excess by c, a panel for each prior. Plain text, so that equal results give equal bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.defaults.plan import SHARES, TASKS

# Okabe and Ito's, told apart by the colour-blind; dashes and markers tell regression from classification
_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#D55E00", "#E69F00", "#CC79A7", "#222222")
_LEAST, _MOST = 1e-3, 3.0  # nats: what is less is drawn at the bottom
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 250, 230, 72, 34, 40

Tables = Mapping[str, Mapping[str, Mapping[float, float]]]  # prior → task → c → nats


def picture(excesses: Tables) -> str:
    """An SVG of all panels and a legend."""
    panels = [_panel(prior, table, number) for number, (prior, table) in enumerate(excesses.items())]
    legend_left = _LEFT + len(panels) * (_WIDTH + _GAP)
    shown = [task for task in TASKS if any(task in table for table in excesses.values())]
    legend = [_legend(task, legend_left, _TOP + 14 + 20 * place) for place, task in enumerate(shown)]
    size = f'width="{legend_left + 215}" height="{_TOP + _HEIGHT + 46}"'
    box = f'viewBox="0 0 {legend_left + 215} {_TOP + _HEIGHT + 46}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} font-family="sans-serif" font-size="12">'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, ground, *panels, *legend, "</svg>"]) + "\n"


def _panel(prior: str, table: Mapping[str, Mapping[float, float]], number: int) -> str:
    left = _LEFT + number * (_WIDTH + _GAP)
    parts = [
        f'<text x="{left}" y="{_TOP - 14}" font-weight="bold">prior: {prior}</text>',
        f'<rect x="{left}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#8C8C8C"/>',
        f'<text x="{left + _WIDTH / 2:g}" y="{_TOP + _HEIGHT + 38}" text-anchor="middle">c</text>',
    ]
    below = f'y="{_TOP + _HEIGHT + 18}" text-anchor="middle"'
    parts += [f'<text x="{_across(share, left):.1f}" {below}>{share:g}</text>' for share in SHARES]
    for value, words in ((1e-3, "≤ 0.001"), (1e-2, "0.01"), (0.1, "0.1"), (1.0, "1")):
        y = _down(value)
        parts.append(f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="#D9D9D9"/>')
        if number == 0:
            parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
    if number == 0:
        middle = _TOP + _HEIGHT / 2
        parts.append(
            f'<text transform="translate(14 {middle:g}) rotate(-90)" text-anchor="middle">excess NLL, nats</text>'
        )
    return "\n".join([*parts, *(_line(task, row, left) for task, row in table.items())])


def _line(task: str, row: Mapping[float, float], left: float) -> str:
    places = [(_across(share, left), _down(value)) for share, value in row.items()]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_colour(task)}"/>' for x, y in places)
    return f'<polyline points="{way}" fill="none" stroke="{_colour(task)}" stroke-width="1.6"{_dashes(task)}/>{dots}'


def _legend(task: str, left: float, y: float) -> str:
    stroke = f'stroke="{_colour(task)}" stroke-width="1.6"{_dashes(task)}'
    return (
        f'<path d="M{left} {y:g}h26" {stroke}/><circle cx="{left + 13:g}" cy="{y:g}" r="3" fill="{_colour(task)}"/>'
        f'<text x="{left + 32:g}" y="{y + 4:g}">{TASKS[task].title}</text>'
    )


def _across(share: float, left: float) -> float:
    margin, first, last = 18, math.log(SHARES[0]), math.log(SHARES[-1])
    return left + margin + (_WIDTH - 2 * margin) * (math.log(share) - first) / (last - first)


def _down(value: float) -> float:
    inside = min(max(value, _LEAST), _MOST)
    return _TOP + (_HEIGHT - 8) * math.log(_MOST / inside) / math.log(_MOST / _LEAST)


def _colour(task: str) -> str:
    return _COLOURS[list(TASKS).index(task)]


def _dashes(task: str) -> str:
    return ' stroke-dasharray="5 3"' if TASKS[task].regression else ""
