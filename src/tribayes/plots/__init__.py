"""Pictures of predictions, posteriors and training. Needs matplotlib: `pip install 'tribayes[plot]'`.

Every function takes an `ax` (or makes a figure of its own) and returns it; none shows a window, saves a file or
changes a setting of matplotlib. Throughout, `pred` holds N predictions and `targets`, (N,), their true classes;
`class_names` are C names, by default the classes' numbers; `level` is that of the credible intervals.

    ax = tribayes.plots.reliability_diagram(pred, targets)
    ax.figure.savefig("reliability.pdf")
"""

try:
    import matplotlib  # noqa: F401 - only to say clearly that it is missing
except ImportError as error:
    raise ImportError(
        "tribayes.plots draws with matplotlib, which is not installed; install it with: pip install 'tribayes[plot]'"
    ) from error

from tribayes.plots.example_plots import output_boxplot, wrong_and_certain
from tribayes.plots.training_plot import posterior_bars, training_curves
from tribayes.plots.trust_plots import regression_band, reliability_diagram, risk_coverage_curve, uncertainty_histogram

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
