"""docs/modern.md from the runs that were kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from benchmarks.modern import every_arm
from benchmarks.modern.arms import ARMS
from benchmarks.modern.figures import Difference, equivalent_text, paired_difference
from benchmarks.modern.keeping import Ensemble, Kept, Trial
from benchmarks.modern.networks import NETWORKS
from benchmarks.modern.table import Runs, mean_text
from pages.markdown import markdown_table

INTRODUCTION = """\
# A modern network, as the defaults make it

<!-- Made by `python -m benchmarks.modern page` from benchmarks/results/modern/. Not to be edited by hand. -->

ResNet-18 on CIFAR-10 with crops and mirror images, {epochs} epochs of SGD (Nesterov, 0.9), batch {batch}, rate 0.2 with
warm-up and cosine, weight decay 5e-4, bf16: the same for every arm, and their numbers tuned here for none. The last
5,000 training images are held out for temperatures. *Ours* has the library's defaults: the relative prior,
`kl_weight="auto"`, the diagonal family. It predicts with {samples} sampled networks. An *ensemble* is the mean of the
networks of several seeds. Mean ± standard error over seeds; the seed of a run gives every arm the same first weights
and the same order of images.

The decay is the optimizer's, for normalisation as for weights. In *decay of weights alone* it is for random weights and
nothing else, as `parameter_groups(weight_decay=...)` has it: that was trained first, and test images had been looked at
once for it and for *plain*. The difference to *plain*, whose normalisation decays, was seen then; shorter trainings,
judged on held-out images (below), said which way is better, and *ours* was trained anew: a second look.
"""

COLUMNS: tuple[tuple[str, Callable[[Mapping[str, Any]], float], float, int], ...] = (
    ("error %", lambda one: one["error"], 100, 2),
    ("NLL", lambda one: one["nll"], 1, 3),
    ("ECE %", lambda one: one["ece"], 100, 2),
    ("Brier", lambda one: one["brier"], 1, 4),
    ("NLL, scaled", lambda one: one["scaled"]["nll"], 1, 3),
    ("AUROC of errors", lambda one: one["auroc_errors"], 1, 3),
    ("NLL, corrupted", lambda one: one["corrupted"]["mean"]["nll"], 1, 3),
    ("AUROC, near", lambda one: one["foreign"]["near"]["entropy"], 1, 3),
    ("AUROC, far", lambda one: one["foreign"]["far"]["entropy"], 1, 3),
)
README_COLUMNS = ("error %", "NLL", "ECE %", "NLL, scaled", "NLL, corrupted", "AUROC, near", "AUROC, far")
WORSE_IF_LARGER = ("error %", "NLL", "ECE %", "Brier", "NLL, scaled", "NLL, corrupted")

NOTES = """\
*Scaled*: after one temperature, chosen on held-out images, for every arm alike. *Corrupted*: the mean over the 15 kinds
and 5 strengths of CIFAR-10-C, made here from 2,000 test images. *Near* and *far*: telling 2,000 images of CIFAR-100 and
of house numbers from test images by entropy.
"""

NAMES = {"plain": "plain", "ours": "ours, diagonal", "ours_tridiagonal": "ours, tridiagonal"}
WEIGHTS_ALONE = "ours, diagonal, decay of weights alone"
DATA = "cifar10"
T = TypeVar("T")
MISSING = """\
## What has not been run

ResNet-18 with the paper's tridiagonal family, MC dropout, mean field, IVON, Laplace's approximation of the last layer
and SWAG: they are in the same queue (`python -m benchmarks.modern run --help`) and have not been run
at this length; neither have CIFAR-100, WideResNet and ViT. The defaults were chosen on smaller networks
([defaults.md](defaults.md)); nothing about them was tuned here.
"""


def document(kept: Kept) -> str:
    cells, together = _of(DATA, kept.runs), _of(DATA, kept.ensembles)
    plain, others = _split(cells)
    settings = next(iter(plain.values()))["settings"]
    parts = [INTRODUCTION.format(**settings), _table(cells, together), NOTES]
    parts += [_verdict(runs, plain) + _on_held_out(runs, plain) for runs in others.values()]
    parts += [_equivalents(others, one) for cell, one in together.items() if arm_of(cells[cell]) == "plain"]
    parts += [_certainty(runs) for runs in others.values()]
    parts += [_corruptions(plain, others), _taus(others), _tried(kept.trials[f"{DATA}-resnet18"])]
    every = [_of(every_arm.DATA, found) for found in kept]
    parts += [every_arm.section(*every), MISSING]
    return "\n".join(parts)


def _of(data: str, found: Mapping[str, T]) -> dict[str, T]:
    """What was found of networks trained on these data, by cell."""
    return {cell: one for cell, one in found.items() if cell.startswith(f"{data}-")}


def readme_block(kept: Kept) -> str:
    """What README says of it: the figures that most ask for, and what of all is beyond the error of the seeds."""
    cells, together = _of(DATA, kept.runs), _of(DATA, kept.ensembles)
    cells = {cell: runs for cell, runs in cells.items() if arm_of(runs) != WEIGHTS_ALONE}
    plain, others = _split(cells)
    settings = next(iter(plain.values()))["settings"]
    lines = [
        f"ResNet-18 on CIFAR-10, {settings['epochs']} epochs, every arm trained alike and none tuned. *Scaled*: after "
        "one temperature for each arm; *corrupted*: the kinds of CIFAR-10-C; *near*, *far*: how well foreign images "
        "are told apart by entropy.",
        "",
        _table(cells, together, README_COLUMNS),
        *(_beside(runs, plain) for runs in others.values()),
    ]
    return "\n".join(lines)


def _beside(runs: Runs, plain: Runs) -> str:
    """The verdict in a paragraph, without its intervals."""
    found = {kind: "; ".join(name for name, _ in some) or "nothing" for kind, some in _kinds(runs, plain).items()}
    verdicts = " ".join(f"{kind.capitalize()}: {names}." for kind, names in found.items())
    seeds = len(runs.keys() & plain.keys())
    return (
        f"**{arm_of(runs).capitalize()}, beside plain**, paired over {seeds} seeds, beyond a 95 % t-interval or not. "
        f"{verdicts} {_on_held_out(runs, plain).removeprefix('- ').strip()} "
        f"Training took {_time(runs, plain):.2f} × the plain network's time.\n"
    )


def _time(runs: Runs, plain: Runs) -> float:
    """Of training, × plain, the mean over the seeds that both have."""
    seeds = runs.keys() & plain.keys()
    return sum(runs[seed]["seconds"]["train"] / plain[seed]["seconds"]["train"] for seed in seeds) / len(seeds)


def arm_of(runs: Runs) -> str:
    settings = next(iter(runs.values()))["settings"]
    assert settings["arm"] in ARMS
    return WEIGHTS_ALONE if settings["options"].get("decay") == "means" else NAMES.get(settings["arm"], settings["arm"])


def _in_order(runs: Runs) -> tuple[bool, bool]:
    """Plain first, and last what has been replaced."""
    return arm_of(runs) != "plain", arm_of(runs) == WEIGHTS_ALONE


def _split(cells: Mapping[str, Runs]) -> tuple[Runs, dict[str, Runs]]:
    plain = next(runs for runs in cells.values() if arm_of(runs) == "plain")
    others = sorted(
        ((cell, runs) for cell, runs in cells.items() if runs is not plain), key=lambda one: _in_order(one[1])
    )
    return plain, dict(others)


def _table(
    cells: Mapping[str, Runs],
    together: Mapping[str, Ensemble],
    names: Sequence[str] = tuple(name for name, *_ in COLUMNS),
) -> str:
    rows = []
    columns = [column for column in COLUMNS if column[0] in names]
    for runs in sorted(cells.values(), key=_in_order):
        tested = [record["test"] for record in runs.values()]
        shown = [mean_text([factor * of(one) for one in tested], digits) for _, of, factor, digits in columns]
        rows.append([arm_of(runs), str(len(runs)), *shown])
    for cell, one in together.items():
        shown = [f"{factor * of(one['figures']):.{digits}f}" for _, of, factor, digits in columns]
        rows.append([f"ensemble of {len(one['members'])} {arm_of(cells[cell])}", "1", *shown])
    return markdown_table(["", "seeds", *(column[0] for column in columns)], rows)


def _verdict(runs: Runs, plain: Runs) -> str:
    """What is better and what is worse than plain, beyond the error of the seeds that both have."""
    said = _kinds(runs, plain)
    lines = [
        f"- {kind}: {'; '.join(f'{name} {span}' for name, span in some) or 'nothing'}." for kind, some in said.items()
    ]
    seeds = len(runs.keys() & plain.keys())
    head = f"**{arm_of(runs).capitalize()} − plain**, paired over {seeds} seeds, with Student's 95 % interval:"
    return "\n".join([head, "", *lines, ""])


def _kinds(runs: Runs, plain: Runs) -> dict[str, list[tuple[str, str]]]:
    """By verdict the figures, each with its paired difference to plain."""
    said: dict[str, list[tuple[str, str]]] = {"better": [], "worse": [], "within error": []}
    for name, of, factor, digits in COLUMNS:
        own, other = ({seed: factor * of(record["test"]) for seed, record in each.items()} for each in (runs, plain))
        found = paired_difference(own, other)
        kind = _kind(found, larger_is_worse=name in WORSE_IF_LARGER)
        said[kind].append((name, f"{found.mean:+.{digits}f} [{found.lower:+.{digits}f}, {found.upper:+.{digits}f}]"))
    return said


def _on_held_out(runs: Runs, plain: Runs) -> str:
    """The same of the error on held-out images, a second set that no network was trained on."""
    both = [{seed: 100 * record["held_out"]["error"] for seed, record in each.items()} for each in (runs, plain)]
    found = paired_difference(*both)
    word = _kind(found, larger_is_worse=True)
    return f"- On held-out images: error % {found.mean:+.2f} [{found.lower:+.2f}, {found.upper:+.2f}], {word}.\n"


def _kind(found: Difference, larger_is_worse: bool) -> str:
    if not found.clear:
        return "within error"
    return "worse" if (found.mean > 0) == larger_is_worse else "better"


def _equivalents(others: Mapping[str, Runs], ensemble: Ensemble) -> str:
    """How many plain networks have the same calibrated log-likelihood together."""
    reached = ensemble["log_likelihoods"]
    shown = ", ".join(f"{value:.4f}" for value in reached)
    parts = []
    for runs in others.values():
        own = [-record["test"]["scaled"]["nll"] for record in runs.values()]
        mean = sum(own) / len(own)
        parts.append(f"{arm_of(runs)} with {mean:.4f} is worth {equivalent_text(mean, reached)} of them")
    return (
        "**Deep-ensemble equivalent** (Ashukha et al. 2020), by log-likelihood at the best temperature: "
        f"1 to {len(reached)} plain networks have {shown}; {'; '.join(parts)}.\n"
    )


def _certainty(runs: Runs) -> str:
    counts = [record["test"]["certain"] for record in runs.values()]
    total = sum(sum(one.values()) for one in counts)
    share = {name: 100 * sum(one[name] for one in counts) / total for name in counts[0]}
    certain, wrong = share["correct_certain"] + share["wrong_certain"], share["wrong_certain"]
    return (
        f"**Quite certain at 95 %**, {arm_of(runs)}: {certain:.1f} % of test images, of which "
        f"{100 * wrong / certain:.1f} % are wrong; among the others {_wrong_among_others(share):.0f} % are.\n"
    )


def _wrong_among_others(share: Mapping[str, float]) -> float:
    return 100 * share["wrong_uncertain"] / (share["wrong_uncertain"] + share["correct_uncertain"])


def _corruptions(plain: Runs, others: Mapping[str, Runs]) -> str:
    arms = {"plain": plain, **{arm_of(runs): runs for runs in others.values()}}
    kinds = [kind for kind in next(iter(plain.values()))["test"]["corrupted"] if kind != "mean"]
    rows = [[kind.replace("_", " "), *(mean_text(_of_kind(runs, kind), 2) for runs in arms.values())] for kind in kinds]
    return "## NLL by kind of corruption\n\n" + markdown_table(["", *arms], rows)


def _of_kind(runs: Runs, kind: str) -> list[float]:
    return [record["test"]["corrupted"][kind]["nll"] for record in runs.values()]


def _taus(others: Mapping[str, Runs]) -> str:
    lines = ["## What τ came to", ""]
    for runs in others.values():
        taus = {name: row["tau"] for name, row in next(iter(runs.values()))["posterior"].items()}
        low, high = min(taus, key=lambda name: taus[name]), max(taus, key=lambda name: taus[name])
        lines.append(
            f"{arm_of(runs).capitalize()}, first seed: from {taus[low]:.3f} (`{low}`) to {taus[high]:.2f} (`{high}`)."
        )
    return "\n".join([*lines, ""])


def _tried(trials: Sequence[Trial]) -> str:
    """The short trainings that settings were compared by."""
    first = trials[0]["settings"]
    rows = []
    for one in sorted(trials, key=lambda one: -float(one["held_out"]["nll"])):
        settings, found = one["settings"], one["held_out"]
        own = settings["options"]
        alone = "random weights" if own.get("decay") == "means" else "all"
        usual = NETWORKS[settings["network"]].weight_decay
        decay = f"{usual if settings['weight_decay'] is None else settings['weight_decay']:g}, {alone}"
        shown = [f"{100 * found['error']:.2f}", f"{found['nll']:.4f}", f"{100 * found['ece']:.2f}"]
        rows.append([NAMES[settings["arm"]], str(own.get("kl", "")), decay, *shown])
    head = (
        f"## Short trainings\n\n{first['epochs']} epochs, one seed, 5,000 held-out images, on which an error of 6 % "
        "has a standard error of 0.3. No test image was looked at.\n\n"
    )
    return head + markdown_table(["", "kl_weight", "decay, of what", "error %", "NLL", "ECE %"], rows)
