"""One self-contained HTML page with tables and pictures. Needs matplotlib: `pip install 'tribayes[plot]'`.

    tribayes.report.classification_report("report.html", pred, targets, model=model, images=images)

or, piece by piece,

    >>> page = tribayes.report.Report("My data")
    >>> section = page.section("Numbers").table(["quantity", "value"], [["error", 0.0139]])
    >>> path = page.write(folder / "report.html")
"""

from tribayes.report.classification_page import classification_report
from tribayes.report.page import Report, Section

__all__ = ["Report", "Section", "classification_report"]
