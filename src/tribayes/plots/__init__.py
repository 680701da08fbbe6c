"""Pictures of predictions, posteriors and training. Needs matplotlib: `pip install 'tribayes[plot]'`.

Every function takes an `ax` (or makes a figure of its own) and returns it; none shows a window, saves a file or
changes a setting of matplotlib.

    ax = tribayes.plots.reliability_diagram(pred, targets)
    ax.figure.savefig("reliability.pdf")
"""

try:
    import matplotlib  # noqa: F401 - only to say clearly that it is missing
except ImportError as error:
    raise ImportError(
        "tribayes.plots draws with matplotlib, which is not installed; install it with: pip install 'tribayes[plot]'"
    ) from error

from tribayes.plots.boxplot import output_boxplot
from tribayes.plots.histogram import uncertainty_histogram
from tribayes.plots.posterior_plot import posterior_bars
from tribayes.plots.regression_plot import regression_band
from tribayes.plots.reliability import reliability_diagram
from tribayes.plots.risk_coverage import risk_coverage_curve
from tribayes.plots.training_plot import training_curves
from tribayes.plots.wrong_images import wrong_and_certain

__all__ = [
    "output_boxplot",
    "posterior_bars",
    "regression_band",
    "reliability_diagram",
    "risk_coverage_curve",
    "training_curves",
    "uncertainty_histogram",
    "wrong_and_certain",
]
