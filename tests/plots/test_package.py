"""The pictures are an extra, and leave matplotlib as it was."""

import subprocess
import sys
from pathlib import Path

import matplotlib

from tests.plots.cases import images_for, line, noisy_targets, random_classes
from tests.plots.test_posterior_plot import TABLE
from tests.plots.test_training_plot import HISTORY
from tribayes import plots


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_without_matplotlib_the_error_says_how_to_install_it() -> None:
    done = run("import sys; sys.modules['matplotlib'] = None\nimport tribayes\nimport tribayes.plots")
    assert done.returncode != 0
    assert "ImportError: tribayes.plots draws with matplotlib, which is not installed" in done.stderr
    assert "pip install 'tribayes[plot]'" in done.stderr


def test_importing_the_pictures_chooses_no_window_system() -> None:
    assert run("import sys, tribayes.plots; sys.exit('matplotlib.pyplot' in sys.modules)").returncode == 0


def draw_all() -> dict[str, matplotlib.axes.Axes]:
    pred = random_classes()
    targets = noisy_targets(pred)
    x, values = line()
    return {
        "output_boxplot": plots.output_boxplot(pred, 0, image=images_for(1)[0], target=1),
        "posterior_bars": plots.posterior_bars(TABLE),
        "regression_band": plots.regression_band(x, values, observed=(x, x)),
        "reliability_diagram": plots.reliability_diagram(pred, targets),
        "risk_coverage_curve": plots.risk_coverage_curve(pred, targets),
        "training_curves": plots.training_curves(HISTORY, final_error=0.1),
        "uncertainty_histogram": plots.uncertainty_histogram(pred, targets, foreign=pred),
        "wrong_and_certain": plots.wrong_and_certain(pred, targets, images_for(60)),
    }


def test_no_picture_is_missing_here_and_all_have_a_title() -> None:
    drawn = draw_all()
    assert sorted(drawn) == plots.__all__
    assert all(ax.get_title(loc="left") for ax in drawn.values())


def test_settings_of_matplotlib_stay_as_they_were() -> None:
    before = dict(matplotlib.rcParams)
    draw_all()
    assert dict(matplotlib.rcParams) == before


def test_every_picture_can_be_saved_with_all_of_it_inside(tmp_path: Path) -> None:
    for name, ax in draw_all().items():
        for kind in ("png", "svg", "pdf"):
            ax.figure.savefig(tmp_path / f"{name}.{kind}")
        inside, outside = ax.figure.get_tightbbox(), ax.figure.get_size_inches()
        assert inside.x0 >= -0.02, name
        assert inside.y0 >= -0.02, name
        assert inside.x1 <= outside[0] + 0.02, name
        assert inside.y1 <= outside[1] + 0.02, name
