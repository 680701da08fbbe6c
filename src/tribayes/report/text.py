"""Text for the page: escaped, and with numbers that stay beside their signs."""

from __future__ import annotations

from html import escape


def safe(text: str) -> str:
    """`text` for any place in HTML, attributes included; a percent sign never begins a line.

    >>> safe("<b> 5 %")
    '&lt;b&gt; 5\\xa0%'
    """
    return escape(text).replace(" %", "\u00a0%")
