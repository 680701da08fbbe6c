"""The network that is there when none is named: the digits', trained on first use and kept in the user's cache."""

from __future__ import annotations

from tribayes._files import make_folder, only_one
from tribayes._tensor_files import digest
from tribayes._text import printable
from tribayes.data.loading import cache_folder
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_run import RecipeRun, Request, train_as_asked
from tribayes.runs.environment import repeatable

_EXPERIMENT = "digits"
_CHECKPOINT_SECONDS = 10.0


def embedded_run() -> RecipeRun:
    """The digits' run; training it shows how far it is, and one that was cut short goes on where it was."""
    setting = experiment(_EXPERIMENT)
    place = cache_folder() / "serve"
    folder = place / f"{_EXPERIMENT}-{digest({}, setting.as_dict())[:8]}"  # another setting is another network
    make_folder(place)
    with only_one(place, wait=True):  # a second server waits for the first one's training
        begun = (folder / "config.json").is_file()
        if begun and (run := RecipeRun.open(folder)).finished:
            return run
        print(f"Training the network of handwritten digits, once, in {printable(folder)}")
        request = Request(None if begun else _EXPERIMENT, folder, None, {}, "cpu", None, None)
        with repeatable(threads=1):  # so small a network gains nothing from a second one
            return train_as_asked(request, begun, _CHECKPOINT_SECONDS, tensorboard=False)
