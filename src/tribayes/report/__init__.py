"""One self-contained HTML page with tables and pictures. Needs matplotlib: `pip install 'tribayes[plot]'`.

    tribayes.report.classification_report("report.html", pred, targets, model=model, images=images)

`regression_report` is the same about values; or piece by piece, with `Report`.
"""

from tribayes.report.classification_page import classification_report
from tribayes.report.page import Report, Section
from tribayes.report.regression_page import regression_report

__all__ = ["Report", "Section", "classification_report", "regression_report"]
