"""Which pictures the page has: each made from the results it needs, or None where these are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduction.pages.drawing import draw_boxplot, draw_paths, draw_scatter, draw_training, draw_wrong
from reproduction.pages.page_picture import PagePicture
from reproduction.pages.rows import Row
from reproduction.paper import printed
from reproduction.results.result_files import Result, Results
from tribayes.data import class_names

KINDS = ("sure", "two-way", "hopeless")


def training_picture(results: Results, name: str, rows: Sequence[Row]) -> PagePicture | None:
    """The training of each row that was run, side by side."""
    panels = [_training_panel(row.title, run) for row in rows if (run := results.full(row.experiment))]
    return PagePicture(f"{name}-training.png", panels, draw_training) if panels else None


def boxplot_picture(results: Results, experiment: str, kind: str) -> PagePicture | None:
    """The sampled outputs for one of the three chosen images."""
    run = results.full(experiment)
    example = run and run.evaluation["examples"].get(kind)
    if not run or not example:
        return None
    names = list(class_names(run.setting.data))
    shown = example if names == [str(place) for place in range(len(names))] else {**example, "class_names": names}
    return PagePicture(f"{experiment}-{kind}.png", shown, draw_boxplot)


def wrong_picture(results: Results, experiment: str) -> PagePicture | None:
    """The images that were wrong and quite certain; None also where there was none of these."""
    run = results.full(experiment)
    wrong = run and run.evaluation["confidently_wrong"]
    if not run or not wrong or not wrong.get("images"):
        return None
    names = class_names(run.setting.data)
    shown = {
        "images": wrong["images"],
        "true": [names[place] for place in wrong["true"][: len(wrong["images"])]],
        "predicted": [names[place] for place in wrong["predicted"][: len(wrong["images"])]],
    }
    return PagePicture(f"{experiment}-wrong.png", shown, draw_wrong)


def path_picture(results: Results, experiment: str) -> PagePicture | None:
    """How τ and ρ of the weights moved."""
    run = results.full(experiment)
    if not run or "tau" not in run.curve:
        return None
    panels = [_path_panel(run, experiment, parameter, symbol) for parameter, symbol in (("tau", "τ"), ("rho", "ρ"))]
    return PagePicture(f"{experiment}-posterior.png", panels, draw_paths)


def scatter_picture(results: Results, nets: dict[str, list[Row]]) -> PagePicture | None:
    """How the spread of the likelihood term went, one panel per network that was run."""
    panels = []
    for title, rows in nets.items():
        lines = {row.title: _scatter_line(run) for row in rows if (run := results.full(row.experiment))}
        if lines:
            panels.append({"title": title, "lines": lines})
    return PagePicture("smoothness.png", panels, draw_scatter) if panels else None


def _training_panel(title: str, run: Result) -> dict[str, Any]:
    columns = ("iteration", "loss", "loss_std", "one_sample_error")
    return {
        "title": title,
        "frequentist": not run.setting.bayesian,
        "error": run.evaluation["error"],
        **{name: run.curve[name] for name in columns},
    }


def _path_panel(run: Result, experiment: str, parameter: str, symbol: str) -> dict[str, Any]:
    theirs = {f"{layer.name}.weight": getattr(layer, parameter) for layer in printed.POSTERIORS.get(experiment, ())}
    return {
        "title": f"{symbol} of the weights",
        "label": symbol,
        "iteration": run.curve["iteration"],
        "values": run.curve[parameter],
        "paper": theirs,
    }


def _scatter_line(run: Result) -> dict[str, Any]:
    pairs = zip(run.curve["nll_std"], run.curve["nll"], strict=True)
    return {"iteration": run.curve["iteration"], "relative": [std / mean if mean else 0.0 for std, mean in pairs]}
