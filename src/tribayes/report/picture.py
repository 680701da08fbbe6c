"""A figure inside the page: as vectors where that is compact, else as pixels."""

from __future__ import annotations

import base64
from collections.abc import Callable
from io import BytesIO

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tribayes._errors import wrong_type
from tribayes.report.html import safe

_LIMIT = 110_000  # bytes of a picture; a third more in base64, so below 150 kB in the page
_RESOLUTIONS = (160, 120, 90, 60)  # dots per inch, tried in this order


def drawn(draw: Callable[..., Axes], width: float, height: float) -> Figure:
    """A figure of this size in inches, drawn by `draw(ax=...)`; without pyplot, so no window and no list of figures.

    >>> figure = drawn(lambda ax: ax.plot([1, 2, 3]), width=4, height=3)
    >>> figure.get_size_inches().tolist()
    [4.0, 3.0]
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    draw(ax=figure.subplots())
    return figure


def html_picture(figure: Figure, alt: str, caption: str) -> str:
    """The figure's HTML, with a text for those who do not see it and a sentence for those who do."""
    if not isinstance(figure, Figure):
        raise wrong_type("figure", type(figure).__name__, "be a matplotlib Figure", "pass ax.figure")
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    kind, data = _compact(figure)
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    image = f'<img src="{source}" width="{width}" height="{height}" alt="{safe(alt)}">'
    return f"<figure>{image}<figcaption>{safe(caption)}</figcaption></figure>\n"


def _compact(figure: Figure) -> tuple[str, bytes]:
    data = _saved(figure, "svg")
    if len(data) <= _LIMIT:
        return "image/svg+xml", data
    for resolution in _RESOLUTIONS:
        data = _saved(figure, "png", resolution)
        if len(data) <= _LIMIT:
            break
    return "image/png", data


def _saved(figure: Figure, kind: str, resolution: int = 150) -> bytes:
    buffer = BytesIO()
    unchanging = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "tribayes"}):  # the same figure gives the same bytes
        figure.savefig(buffer, format=kind, dpi=resolution, metadata=unchanging)
    return buffer.getvalue()
