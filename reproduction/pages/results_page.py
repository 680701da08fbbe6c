"""The page from top to bottom."""

from __future__ import annotations

from pages.markdown import markdown_table
from reproduction.pages.blocks import Block, shown
from reproduction.pages.differences import (
    foreign_differences,
    foreign_sentence,
    score_differences,
    score_sentence,
)
from reproduction.pages.gallery import (
    KINDS,
    boxplot_picture,
    path_picture,
    scatter_picture,
    training_picture,
    wrong_picture,
)
from reproduction.pages.gap_to_paper import better_text, gap_text, looks_in_full, looks_text, ours_text
from reproduction.pages.open_choices import choices_table
from reproduction.pages.rows import CIFAR, DIGITS, FASHION, LENET_100, LENET_250, Row, bayesian
from reproduction.pages.smoothness import smoothness_table, verdict_sentence, verdict_table
from reproduction.pages.tables import (
    certain_table,
    error_table,
    foreign_table,
    posterior_table,
    scale_table,
    score_table,
)
from reproduction.pages.trial_table import changes_text, trials_of, trials_table
from reproduction.results.result_files import TRIAL_FOLDER, Results
from reproduction.results.targets import SEEDS, targets, verdict
from tribayes.recipes.experiments import EXPERIMENTS

COMMAND = "python -m reproduction results"

_SCORES = (
    "Error is the share of wrong predictions of {samples} sampled networks on the test set; *at the means* is that of "
    "the one network whose weights are the posterior means. NLL in nats; Brier score from 0 to 2; ECE over 15 bins; "
    "AUROC of errors: the probability that a wrong prediction has the larger entropy than a right one. The paper has "
    "only the error."
)
_FAMILIES = (
    "*Diagonal* is the paper's law with ρ = 0; *mean field* has a standard deviation for each weight. Both have the "
    "budget, ν and start of the tridiagonal model."
)


def page(results: Results) -> list[Block]:
    """docs/results.md, block by block."""
    return [
        *_introduction(results),
        *_in_short(results),
        *_targets(results),
        *_mnist(results),
        *_cifar(results),
        *_fashion(results),
        *_digits(results),
        *_differences(results),
        *_smoothness(results),
        *_choices(results),
        *_made_with(results),
    ]


def _introduction(results: Results) -> list[Block]:
    runs = list(results)
    blocks: list[Block] = [
        "# Results",
        f"<!-- Made by `{COMMAND}` from the files in results/. Not to be edited by hand. -->",
        'The experiments of Posch and Pilz, "Correlated Parameters to Accurately Measure Uncertainty in Deep Neural '
        f'Networks", Section IV, and what goes beyond them. Made from {len(runs)} result files; figures are mean ± '
        "standard deviation over seeds, a figure without ± is of one seed. To run everything again and write this "
        "page from it:",
        f"```\npython -m reproduction reproduce all\n{COMMAND}\n```",
    ]
    odd = _deviations(results)
    if odd:
        blocks.append("Not trained by the catalogue's setting, so not what their rows promise:\n\n" + odd)
    return blocks


def _deviations(results: Results) -> str:
    """Runs under a name of the catalogue whose setting is another."""
    names = {run.experiment for run in results if run.changes and not run.experiment.startswith(TRIAL_FOLDER)}
    own = [trial for name in sorted(names) for trial in trials_of(results, name) if trial.runs[0].experiment == name]
    return "\n".join(f"- {trial.experiment}: {changes_text(trial)}" for trial in own)


def _in_short(results: Results) -> list[Block]:
    return [
        "## In short",
        "Test errors by the paper, and here. **tribayes** is the paper's correlated (tridiagonal) model.",
        error_table(results),
    ]


def _targets(results: Results) -> list[Block]:
    rows = []
    for target in targets():
        measured = target.measure(results)
        rows.append([target.subject, target.requirement, measured.text if measured else "-", verdict(measured)])
    return [
        "## Targets",
        f"What was to be reached, by the mean of {SEEDS} seeds, and whether it was. In brackets is the 95 % t-interval "
        "of a mean; differences are taken between runs of the same seed. *Met*: the whole interval is on the right "
        "side of the target. *Missed*: all of it is on the wrong side. *Within error*: the target lies inside it, and "
        f"so few seeds cannot tell. {looks_text(results)}".rstrip(),
        markdown_table(["model", "target", "measured", "verdict"], rows),
    ]


def _mnist(results: Results) -> list[Block]:
    rows = [*LENET_100, *LENET_250]
    return [
        "## MNIST",
        f"LeNet with 100 and with 250 neurons in the first fully connected layer, {_budget('mnist-lenet100')}. By the "
        "choice of the 10,000 test images alone, an error of 0.70 % has a standard error of 0.08 %; the paper's are "
        "of one run each.",
        "### Table I: test error\n\n" + _SCORES.format(samples=_samples(results)) + " " + _FAMILIES,
        score_table(results, rows),
        "### Table II: the learned posterior\n\nτ_j and ρ_j of the weights, τ_bj and ρ_bj of the biases. LeNet-100:",
        posterior_table(results, "mnist-lenet100"),
        "LeNet-250 (the paper's Table II calls it 200):",
        posterior_table(results, "mnist-lenet250"),
        "Without correlations:",
        scale_table(results, "mnist-lenet100", _uncorrelated(LENET_100)),
        scale_table(results, "mnist-lenet250", _uncorrelated(LENET_250)),
        shown(
            "τ and ρ of LeNet-100's weights along the training, seed 0; diamonds are the paper's final values.",
            path_picture(results, "mnist-lenet100"),
        ),
        "### Table III: quite certain and uncertain predictions\n\nA prediction is quite certain where the credible "
        "interval of its class overlaps no other class's. The paper has 95 % only.",
        certain_table(results, bayesian(rows)),
        "### Figures 1 to 6",
        shown(
            "Figures 1 and 2: training of LeNet-100, frequentist and Bayesian, seed 0. The dotted line is the final "
            f"test error, of the Bayesian network that of {_samples(results)} sampled ones.",
            training_picture(results, "mnist-lenet100", LENET_100[:2]),
        ),
        _boxplots(
            results,
            "mnist-lenet100",
            f"Figures 3 to 5: {_samples(results)} outputs of LeNet-100 for a sure, a two-way and a ",
        ),
        _wrong(results, "mnist-lenet250"),
    ]


def _boxplots(results: Results, experiment: str, caption: str) -> Block:
    rule = (
        "hopeless image, seed 0. Chosen by rule: of the right and quite certain the one of median entropy; of the "
        "wrong and uncertain the one that gave its true class most probability; of the others of these the one of "
        "largest entropy."
    )
    return shown(caption + rule, *(boxplot_picture(results, experiment, kind) for kind in KINDS))


def _wrong(results: Results, experiment: str) -> Block:
    caption = "Figure 6: all test images of which LeNet-250 was quite certain (95 %) and wrong, seed 0."
    run = results.full(experiment)
    if run is None:
        return shown(caption)
    found, images = (len(run.evaluation["confidently_wrong"].get(key, [])) for key in ("index", "images"))
    if not found:
        return f"*{caption} There is none.*"
    if images < found:
        caption = caption.replace("all test images", f"{images} of the {found} test images")
    return shown(caption, wrong_picture(results, experiment))


def _cifar(results: Results) -> list[Block]:
    return [
        "## CIFAR-10",
        f"Caffe's CIFAR10_full, {_budget('cifar10')}; the frequentist network {_budget('cifar10-frequentist')}. "
        f"*Paper's setting* keeps everything the paper states; *ours* was chosen on held-out training images: "
        f"{ours_text()}. {better_text(trials_of(results, 'cifar10'))}".rstrip(),
        *filter(None, [looks_in_full(results)]),
        "### Table IV: test error",
        score_table(results, CIFAR),
        "### Table V: the learned posterior",
        posterior_table(results, "cifar10"),
        "Without correlations:",
        scale_table(results, "cifar10", _uncorrelated(CIFAR)),
        shown(
            "τ and ρ of the weights along the training, seed 0; diamonds are the paper's final values.",
            path_picture(results, "cifar10"),
        ),
        "### Table VI: quite certain and uncertain predictions",
        certain_table(results, bayesian(CIFAR)),
        "### Figures 7 and 8",
        shown(
            "Figures 7 and 8: training on CIFAR-10, frequentist and Bayesian (paper's setting), seed 0. The dotted "
            "line is the final test error.",
            training_picture(results, "cifar10", CIFAR[:2]),
        ),
        _boxplots(results, "cifar10", f"Beyond the paper: {_samples(results)} outputs for a sure, a two-way and a "),
        *_tried(results),
    ]


def _tried(results: Results) -> list[Block]:
    trials = results.trials().values()
    if not trials:
        return ["### What was tried", "No trials are stored."]
    seen = sum(not runs[0].setting.validation for runs in trials)
    blocks: list[Block] = [
        "### What was tried",
        f"All {len(trials)} trials that were kept, with what each was judged on; {seen} of them saw the test set.",
    ]
    for name in sorted({runs[0].setting.name for runs in trials}):
        blocks += [f"Of `{name}`:", trials_table(results, name)]
    gap = gap_text(trials_of(results, "cifar10"))
    return [*blocks, gap] if gap else blocks


def _fashion(results: Results) -> list[Block]:
    return [
        "## Fashion-MNIST",
        "LeNet-100 with the settings of MNIST; not in the paper.",
        score_table(results, FASHION),
        certain_table(results, bayesian(FASHION)),
        "### Foreign images\n\nNetworks trained on MNIST are asked about the test images of Fashion-MNIST. AUROC: the "
        "probability that a foreign image gets the larger uncertainty than one of MNIST's test images.",
        foreign_table(results, [*LENET_100, *LENET_250]),
        foreign_differences(results),
        foreign_sentence(results),
    ]


def _digits(results: Results) -> list[Block]:
    return [
        "## Digits",
        f"The 8×8 digits of scikit-learn, {_budget('digits')}: an experiment for a laptop, not in the paper.",
        score_table(results, DIGITS),
        certain_table(results, bayesian(DIGITS)),
    ]


def _differences(results: Results) -> list[Block]:
    return [
        "## Do the correlations help?",
        "The tridiagonal model beside the others: the mean difference between runs of the same seed, with its 95 % "
        "t-interval; in bold where 0 is not in it. All scores are the better the lower.",
        score_differences(results),
        score_sentence(results),
        foreign_sentence(results),
    ]


def _smoothness(results: Results) -> list[Block]:
    nets = {"MNIST, LeNet-100": LENET_100[:3], "CIFAR-10, paper's setting": [CIFAR[0], CIFAR[1], CIFAR[3]]}
    return [
        "## Is training smoother with correlations?",
        "The paper says that learning correlations makes the loss fluctuate less than in the diagonal model. Measured "
        "here: the standard deviation of the likelihood term over the steps between two records (1,000; fewer in "
        "short runs), the median over the second half of the training; relative to the mean of the term, and in nats. "
        "Two models differ where the 95 % t-interval of their difference, paired by seed, does not hold 0.",
        smoothness_table(results),
        verdict_table(results),
        verdict_sentence(results),
        shown("Relative spread of the likelihood term along the training, seed 0.", scatter_picture(results, nets)),
    ]


def _choices(results: Results) -> list[Block]:
    return [
        "## What the paper leaves open",
        "What was chosen, and the error of trials that changed this and nothing else.",
        choices_table(results),
    ]


def _made_with(results: Results) -> list[Block]:
    keys = ("device", "python", "torch", "tribayes")
    made = sorted({tuple(str(run.environment[key]) for key in keys) for run in results})
    if not made:
        return []
    seconds = sum(run.seconds for run in results)
    time = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"
    lines = [f"- {device}; Python {python}, torch {torch}, tribayes {own}" for device, python, torch, own in made]
    return ["## Made with", "\n".join(lines), f"{time} of training in all."]


def _budget(experiment: str) -> str:
    setting = EXPERIMENTS[experiment]
    return f"{setting.iterations:,} iterations, batch {setting.batch}"


def _samples(results: Results) -> str:
    """How many networks were drawn: one number, unless runs differ."""
    found = {run.evaluation["samples"] for run in results if run.setting.bayesian}
    return " or ".join(str(number) for number in sorted(found)) or "200"


def _uncorrelated(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.experiment.endswith(("-diagonal", "-meanfield"))]
