"""One self-contained HTML page with tables and pictures. Needs matplotlib: `pip install 'tribayes[plot]'`.

    tribayes.report.classification_report("report.html", pred, targets, model=model, images=images)

or piece by piece, with `Report`.
"""

from tribayes.report.classification_page import classification_report
from tribayes.report.page import Report, Section

__all__ = ["Report", "Section", "classification_report"]
