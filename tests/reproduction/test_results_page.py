"""The page says what the result files hold, no more and no less; and the committed one is up to date."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from pages.files import with_block
from pages.markdown import markdown_table
from reproduction.pages import drawing
from reproduction.pages.blocks import pictures_of, text_of
from reproduction.pages.build import Pages
from reproduction.pages.differences import foreign_sentence, score_sentence
from reproduction.pages.open_choices import choices
from reproduction.pages.readme import readme_block
from reproduction.pages.results_page import page
from reproduction.pages.smoothness import smoothness_verdicts, verdict_sentence
from reproduction.results.result_files import Result, Results, write_result
from tests.reproduction.command import reproduction
from tests.reproduction.synthetic import made_up
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.setting import Setting

REPOSITORY = Path(__file__).parents[2]
GREY = torch.randint(0, 256, (20, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
CIFAR = EXPERIMENTS["cifar10"]
START, END = "<!-- results:start -->", "<!-- results:end -->"


def text(*runs: Result) -> str:
    return text_of(page(Results(runs)))


def section(whole: str, title: str) -> str:
    """The part of the page under a heading."""
    _, _, rest = whole.partition(f"{title}\n")
    assert rest, title
    return rest.split("\n## ")[0]


def row(whole: str, *beginning: str) -> list[str]:
    """The cells of the one table row that begins so."""
    start = "| " + " | ".join(beginning) + " |"
    (line,) = [line for line in whole.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder like a clone's, with some results: MNIST but for the diagonal model, and a trial."""
    (tmp_path / "README.md").write_text(f"# before\n\n{START}\nold\n{END}\n\nafter\n")
    for name in ("mnist-lenet100", "mnist-lenet100-frequentist", "mnist-lenet250"):
        write_result(tmp_path / "results", made_up(name, 0, images=GREY))
    write_result(tmp_path / "results", made_up("trials/half", 0, CIFAR.changed(learning_rate=0.0005)))
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_the_committed_page_is_up_to_date() -> None:
    assert Pages(REPOSITORY).problems() == []


def test_committed_result_files_are_small() -> None:
    large = [path for path in (REPOSITORY / "results").rglob("*.json") if path.stat().st_size > 40_000]
    large += [path for path in (REPOSITORY / "docs/images/results").glob("*.png") if path.stat().st_size > 60_000]
    assert large == []


def test_a_page_of_nothing_says_not_run() -> None:
    whole = text()
    assert "Made from 0 result files" in whole
    assert "±" not in section(whole, "## MNIST").replace("±1e-6", "")
    assert row(whole, "LeNet-100, frequentist", "0.84 %")[2] == "not run"
    assert "Figure 6: all test images of which LeNet-250 was quite certain (95 %) and wrong, seed 0. Not run." in whole
    assert pictures_of(page(Results([]))) == []
    assert readme_block(Results([])).startswith("No results are stored yet")


def test_scores_stand_beside_the_papers() -> None:
    runs = [made_up("mnist-lenet100", seed, error=error) for seed, error in enumerate((0.0068, 0.0070, 0.0072))]
    cells = row(section(text(*runs), "### Table I: test error"), "LeNet-100, Bayesian (tridiagonal)", "0.70 %")
    assert cells[2:4] == ["0.70 ± 0.02 %", "0.77 ± 0.02 %"]
    assert cells[4] == "0.0210 ± 0.0006"
    assert cells[-1] == "3"
    one = text(*runs[:1])
    assert row(section(one, "### Table I: test error"), "LeNet-100, Bayesian (tridiagonal)", "0.70 %")[2] == "0.68 %"


def test_the_posterior_stands_beside_the_papers() -> None:
    whole = section(text(made_up("cifar10", 0)), "### Table V: the learned posterior")
    # made up: τ = 0.05 for the first tensor and 0.05 more for each that follows, ρ = −0.2
    assert row(whole, "Convolutional 2")[1:] == ["0.46", "0.15", "0.05", "0.20", "−0.49", "−0.20", "−0.01", "−0.20"]
    without = section(text(made_up("cifar10-diagonal", 0)), "## CIFAR-10")
    assert row(without, "diagonal, paper's setting", "τ_bj")[2:] == ["0.10", "0.20", "0.30", "0.40"]


def test_counts_stand_beside_the_papers_at_both_levels() -> None:
    run = made_up("cifar10", 0)
    whole = section(text(run), "### Table VI: quite certain and uncertain predictions")
    name = "Bayesian (tridiagonal), paper's setting"
    for level, stored in (("95 %", "0.95"), ("99 %", "0.99")):
        counts = run.evaluation["certain"][stored]
        assert row(whole, level, name)[2:] == [f"{value:,}" for value in counts.values()]
    assert row(whole, "99 %", f"*paper: {name}*")[2:] == ["5,281", "2,687", "250", "1,782"]


def test_foreign_images_have_their_table() -> None:
    whole = text(made_up("mnist-lenet100", 1), made_up("mnist-lenet100-frequentist", 0))
    whole = section(whole, "### Foreign images")
    assert row(whole, "LeNet-100, Bayesian (tridiagonal)")[1:5] == ["0.9700", "0.9800", "21.0 %", "96.0 %"]
    assert row(whole, "LeNet-100, frequentist")[1:4] == ["0.9600", "-", "-"]
    assert row(whole, "LeNet-250, diagonal")[1] == "not run"


def asked(name: str, seed: int, auroc: float, certain: float) -> Result:
    """A run with these answers to foreign images."""
    run = made_up(name, seed)
    answers = {
        "auroc_entropy": auroc,
        "auroc_mutual_information": auroc,
        "certain_outside": {"0.95": certain, "0.99": certain},
        "certain_inside": {"0.95": 0.9, "0.99": 0.9},
    }
    return replace(run, ood=answers)


def test_foreign_images_are_counted_pair_by_pair() -> None:
    worse, better = (0.90, 0.30), (0.95, 0.20)
    nets = ("mnist-lenet100", "mnist-lenet250")
    ours = [asked(net, seed, *worse) for net in nets for seed in range(3)]
    theirs = [asked(f"{net}-diagonal", seed, *better) for net in nets for seed in range(3)]
    words = (
        "was worse than the diagonal one in 6 of 6 paired runs (same network, same seed), by each of the four measures"
    )
    assert words in foreign_sentence(Results(ours + theirs))
    assert words in readme_block(Results(ours + theirs))
    assert text(*ours, *theirs).count(words) == 2
    mixed = [*ours[1:], asked(nets[0], 0, 0.97, 0.30)]  # the first knows foreign images better, and is as certain
    assert "5 of 6 by AUROC by entropy, 5 of 6 by AUROC by mutual information, 6 of 6 by foreign" in foreign_sentence(
        Results(mixed + theirs)
    )
    assert "no pair of runs" in foreign_sentence(Results(ours))


def test_models_are_compared_by_their_paired_differences() -> None:
    ours = [made_up("digits", seed, error=error) for seed, error in enumerate((0.010, 0.020, 0.030))]
    theirs = [made_up("digits-diagonal", seed, error=error) for seed, error in enumerate((0.012, 0.022, 0.032))]
    twice = [made_up("digits-meanfield", seed, error=error) for seed, error in enumerate((0.030, 0.020, 0.010))]
    whole = section(text(*ours, *theirs, *twice), "## Do the correlations help?")
    assert row(whole, "Digits", "diagonal")[2] == "**−0.20 % [−0.20, −0.20]**"
    # differences −2, 0 and 2 %: ± 4.303 · 2 / √3
    assert row(whole, "Digits", "mean field")[2] == "0.00 % [−4.97, 4.97]"
    assert row(whole, "Digits", "frequentist")[2] == "not run"
    assert "of 4 comparisons (a network and a score each), the tridiagonal one is better in 4, worse in 0" in whole
    assert "Too few runs" in score_sentence(Results(ours))


def test_ours_stands_alone_until_others_are_tuned_alike() -> None:
    runs = [
        made_up(name, seed) for name in ("cifar10-ours", "cifar10-frequentist", "cifar10-diagonal") for seed in (0, 1)
    ]
    cells = row(section(text(*runs), "## In short"), "CIFAR-10, ours")
    assert cells[1:4] == ["-", "-", "not run"]
    assert cells[5:] == ["not run", "not run"]
    assert "Not run: a plain, a diagonal, a mean-field network tuned as *ours* was." in text(*runs)


def test_looks_at_the_test_set_are_counted() -> None:
    now = EXPERIMENTS["cifar10-ours"]
    runs = [
        made_up("cifar10-ours", 0, error=0.18),
        made_up("trials/cifar10-ours-look-1", 0, now.changed(tau=0.3), error=0.20),
        made_up("trials/cifar10-ours-look-2", 0, now.changed(tau=0.2), error=0.19),
        made_up("trials/held", 0, now.changed(validation=5000), error=0.1),  # saw no test image
    ]
    assert "*Ours* was looked at three times on the test set: 20.00 %, then 19.00 %, then 18.00 %." in text(*runs)
    assert "*Ours* was looked at once on the test set: 18.00 %. Not run" in text(runs[0])
    assert "looked at" not in text()


def trial(name: str, error: float, **changes: object) -> Result:
    return made_up(f"trials/{name}", 0, CIFAR.changed(**changes), error=error)


def test_trials_say_what_they_change_and_what_they_saw() -> None:
    trials = [
        trial("slow", 0.213, learning_rate=0.0005, kl_warmup=100),
        trial("tau", 0.22, tau=0.2),
        trial("held", 0.23, validation=5000),
        trial("held-tau", 0.225, validation=5000, tau=0.3),
    ]
    whole = section(text(made_up("cifar10", 0, error=0.224), *trials), "### What was tried")
    assert "All 4 trials that were kept, with what each was judged on; 2 of them saw the test set." in whole
    assert row(whole, "slow")[1:4] == ["learning_rate 0.001 → 0.0005, kl_warmup 0 → 100", "test set", "21.30 %"]
    assert row(whole, "held")[1:3] == ["nothing", "5,000 held-out training images"]
    assert row(whole, "the catalogue's")[1:4] == ["nothing", "test set", "22.40 %"]
    assert row(whole, "tau")[6:] == ["0.05 0.15 0.25 0.35", "−0.20 −0.20 −0.20 −0.20", "1"]
    order = [line.split("|")[1].strip() for line in whole.splitlines() if "| test set |" in line or "held-out" in line]
    assert order == ["the catalogue's", "slow", "tau", "held", "held-tau"]


def test_an_open_choice_is_compared_on_the_same_images() -> None:
    trials = [
        trial("slow", 0.213, learning_rate=0.0005, tau=0.1),
        trial("tau", 0.22, tau=0.2),
        trial("held", 0.23, validation=5000),
        trial("held-tau", 0.225, validation=5000, tau=0.3),
    ]
    whole = section(text(made_up("cifar10", 0, error=0.224), *trials), "## What the paper leaves open")
    assert row(whole, "initial δ")[2] == (
        "cifar10, 0.2: 22.00 % (as chosen: 22.40 %; test set); "
        "cifar10, 0.3: 22.50 % (as chosen: 23.00 %; 5,000 held-out training images)"
    )
    assert row(whole, "momentum on CIFAR-10")[2] == "no trial stored"
    assert row(whole, "order of the data")[2] == "not varied"
    alone = section(text(trial("tau", 0.22, tau=0.2)), "## What the paper leaves open")
    assert "as chosen: not run; test set" in row(alone, "initial δ")[2]


def test_open_choices_name_fields_of_a_setting() -> None:
    fields = {choice.field for choice in choices() if choice.field}
    assert fields <= set(Setting.__dataclass_fields__)
    assert {"tau", "gamma", "bias_rate", "momentum", "xavier"} <= fields


def test_a_run_by_another_setting_is_named_first() -> None:
    short = made_up("digits", 0, EXPERIMENTS["digits"].changed(iterations=1000))
    whole = text(short, made_up("mnist-lenet100", 0)).split("## Targets")[0]
    assert "- digits: iterations 2000 → 1000" in whole
    assert "lenet" not in whole
    assert "Not trained by" not in text(made_up("digits", 0))


def scattered(net: str, ours: float, diagonal: float, seeds: int = 3) -> list[Result]:
    pairs = ((net, ours), (f"{net}-diagonal", diagonal))
    return [made_up(name, seed, scatter=scatter) for name, scatter in pairs for seed in range(seeds)]


@pytest.mark.parametrize(
    ("ours", "diagonal", "seeds", "word"),
    [
        (1.0, 1.3, 3, "smoother"),
        (1.3, 1.0, 3, "rougher"),
        (1.0, 1.0, 3, "within error"),
        (1.0, 1.3, 1, "too few seeds to say"),
    ],
)
def test_smoothness_is_judged_by_the_seeds(ours: float, diagonal: float, seeds: int, word: str) -> None:
    results = Results(scattered("mnist-lenet100", ours, diagonal, seeds))
    verdicts = smoothness_verdicts(results)
    assert verdicts["MNIST, LeNet-100"] == {"relative": word, "absolute": word}
    assert verdicts["CIFAR-10"] == {"relative": "not run", "absolute": "not run"}


def test_the_claim_gets_a_verdict() -> None:
    smooth, rough, same = (1.0, 1.3), (1.3, 1.0), (1.0, 1.0)
    cases = {"confirmed": smooth, "not confirmed": rough}
    for word, (ours, diagonal) in cases.items():
        assert f"**{word}**" in verdict_sentence(Results(scattered("cifar10", ours, diagonal)))
    for word, second in (("mixed", rough), ("confirmed in part", same)):
        runs = scattered("cifar10", *smooth) + scattered("mnist-lenet100", *second)
        assert f"**{word}**" in verdict_sentence(Results(runs))
    many = scattered("cifar10", *smooth) + [
        run for net in ("mnist-lenet100", "mnist-lenet250") for run in scattered(net, *same)
    ]
    assert "**not confirmed**" in verdict_sentence(Results(many))  # smoother in 2 of 6, and the rest within error
    assert "open, the runs it needs are missing" in verdict_sentence(Results([]))
    assert verdict_sentence(Results(scattered("cifar10", *rough))).endswith(
        "Of 2 comparisons (a network and a measure each), the tridiagonal model is smoother in 0, rougher in 2, and in "
        "0 the seeds cannot tell. No correction is made for looking at many of them."
    )


def test_all_wrong_images_or_how_many_of_them() -> None:
    caption = "test images of which LeNet-250 was quite certain (95 %) and wrong, seed 0."
    assert f"Figure 6: all {caption}*" in text(made_up("mnist-lenet250", 0, images=GREY))
    assert f"Figure 6: 16 of the 20 {caption}*" in text(made_up("mnist-lenet250", 0, images=GREY, wrong=20))
    assert f"Figure 6: all {caption} There is none.*" in text(made_up("mnist-lenet250", 0, images=GREY, wrong=0))


def test_writing_then_checking_finds_nothing(repository: Path) -> None:
    assert reproduction("results", "--root", repository).code == 0
    assert reproduction("results", "--root", repository, "--check") == (0, "", "")
    pictures = {path.name for path in (repository / "docs/images/results").iterdir()}
    assert {"mnist-lenet100-training.png", "mnist-lenet100-two-way.png", "mnist-lenet250-wrong.png"} <= pictures
    whole = (repository / "docs/results.md").read_text()
    assert all(f'src="images/results/{name}"' in whole for name in pictures)
    readme = (repository / "README.md").read_text()
    assert readme.startswith("# before\n\n")
    assert readme.endswith("\n\nafter\n")
    errors = row(section(whole, "## In short"), "MNIST, LeNet-100")
    assert errors[1:6] == ["0.84 %", "0.70 %", "0.68 %", "**0.68 %**", "not run"]
    assert "MNIST, LeNet-100 0.68 % (plain 0.68 %, the paper's 0.70 %); MNIST, LeNet-250 0.68 % (plain not" in readme


def test_pictures_are_small_and_look_at_the_data(repository: Path) -> None:
    Pages(repository).write()
    for path in (repository / "docs/images/results").iterdir():
        assert path.stat().st_size < 60_000
        with Image.open(path) as image:
            assert image.mode == "P"
            assert len(image.getcolors()) > 8, "an empty picture"


def test_checking_names_what_is_out_of_date(repository: Path) -> None:
    Pages(repository).write()
    folder = repository / "docs/images/results"
    (folder / "stray.png").write_bytes((folder / "mnist-lenet250-wrong.png").read_bytes())
    (folder / "mnist-lenet100-sure.png").unlink()
    (folder / "mnist-lenet100-hopeless.png").write_bytes((folder / "mnist-lenet100-two-way.png").read_bytes())
    (repository / "README.md").write_text((repository / "README.md").read_text().replace("0.61 %", "0.62 %"))
    (repository / "docs/results.md").write_text((repository / "docs/results.md").read_text() + "\n")
    answer = reproduction("results", "--root", repository, "--check")
    assert answer.code == 1
    assert sorted(line.partition("; run: python -m reproduction results")[0] for line in answer.err.splitlines()) == [
        "README.md is not what the result files say",
        "mnist-lenet100-hopeless.png was made from other results",
        "mnist-lenet100-sure.png is missing",
        "results.md is not what the result files say",
        "stray.png belongs to no result",
    ]
    Pages(repository).write()
    assert Pages(repository).problems() == []
    assert not (folder / "stray.png").exists()


def test_new_results_make_the_pictures_out_of_date(repository: Path) -> None:
    Pages(repository).write()
    write_result(repository / "results", made_up("mnist-lenet100", 0, images=GREY, error=0.0069))
    found = Pages(repository).problems()
    assert "mnist-lenet100-training.png was made from other results" in found
    assert not any("lenet250" in problem for problem in found)


def test_what_is_up_to_date_is_not_drawn_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pages(repository).write()
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: pytest.fail("drawn again"))
    assert [path.name for path in Pages(repository).write()] == ["results.md", "README.md"]


def test_a_readme_without_marks_is_refused() -> None:
    for readme in ("none", f"{END}{START}", f"{START}{START}{END}"):
        with pytest.raises(ValueError, match=r"`README\.md` .* must hold both marks once, in this order"):
            with_block(readme, "results", "block")


def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path) -> None:
    answer = reproduction("results", "--root", tmp_path, "--check")
    assert answer.code == 1
    assert "must be a clone of the repository; it has no README.md; say where one is." in answer.err


def test_a_table_with_a_short_row_is_refused() -> None:
    with pytest.raises(ValueError, match="another number of cells"):
        markdown_table(["a", "b"], [["1"]])


def test_training_is_drawn_with_its_final_error(repository: Path) -> None:
    (picture,) = [
        each
        for each in pictures_of(page(Results.read(repository / "results")))
        if each.name == "mnist-lenet100-training.png"
    ]
    figure = drawing.draw_training(picture.shown)
    left, right = figure.axes[:2]
    assert [ax.get_title(loc="left") for ax in (left, right)] == [
        "LeNet-100, frequentist",
        "LeNet-100, Bayesian (tridiagonal)",
    ]
    errors = figure.axes[2]
    assert [line.get_label() for line in errors.lines] == ["test error", "final test error 0.68 %"]
    assert set(errors.lines[1].get_ydata()) == {0.0068}
    assert list(left.lines[0].get_ydata()) == pytest.approx(picture.shown[0]["loss"])


def test_the_gap_to_the_paper_is_read_off_the_trials_where_they_are_stored() -> None:
    changes: dict[str, dict[str, object]] = {
        "as-chosen": {},
        "tau-0.5": {"tau": 0.5},
        "cosine": {"policy": "cosine"},
        "rate-halved": {"learning_rate": 0.0005},
        "decay-of-solver": {"weight_decay": {"*": 0.004}},
        "cosine-decay-of-solver": {"policy": "cosine", "weight_decay": {"*": 0.004}},
    }
    runs = [
        made_up(f"trials/cifar10-{name}", 0, CIFAR.changed(validation=5000, **changed), error=0.2 + place / 100)
        for place, (name, changed) in enumerate(changes.items())
    ]
    on_the_test_set = made_up("trials/cifar10-tau-0.9", 0, CIFAR.changed(tau=0.9), error=0.1)  # does not count here
    whole = text(*runs, on_the_test_set)
    assert "held-out error is 20.00 %; trials that change one such thing lie between 21.00 % and 21.00 %" in whole
    assert "its error is 24.00 %, and 25.00 % with the cosine" in whole
    assert "the gap to the paper's" not in text(*runs[1:])


def test_a_trial_that_beats_what_became_ours_is_named() -> None:
    ours = EXPERIMENTS["cifar10-ours"].changed(name="cifar10", validation=5000)
    chosen = made_up("trials/chosen", 0, ours, error=0.18)
    worse = trial("worse", 0.19, validation=5000, tau=0.3)
    on_the_test_set = trial("seen", 0.1, tau=0.9)
    assert "better still" not in text(chosen, worse, on_the_test_set)
    better = trial("better", 0.17, validation=5000, tau=0.2)
    assert "A later trial, better, was better still on them (17.00 %)" in text(chosen, worse, better)
