"""Formulas of the manual are set as formulas: m_i and t^{2K} are written so that they can be read without this, too.

A hook, named in mkdocs.yml.
"""

from __future__ import annotations

import re

_BELOW = re.compile(r"(?<![A-Za-z0-9_])([^\W\d_][²³]?)_(?:\{([^{}]+)\}|([A-Za-z0-9]{1,2})(?![A-Za-z0-9_]))")
_ABOVE = re.compile(r"([^\W_]|\))\^(?:\{([^{}]+)\}|([A-Za-z0-9])(?![A-Za-z0-9_]))")
_BLOCK = re.compile(r'<div class="language-output highlight">.*?</div>', re.DOTALL)
_FORMULA = re.compile("[α-ωΑ-Ω∂√]")
_CODE = re.compile(r"(<pre.*?</pre>|<code.*?</code>|<svg.*?</svg>|<[^>]*>)", re.DOTALL)
_TAG = re.compile(r"(<[^>]*>)")


def on_page_content(html: str, **_: object) -> str:
    """Called by mkdocs for each page: prose and blocks of formulas are set, code is left alone.

    >>> on_page_content("<p>m_i of <code>m_i</code>, 1 − t^{2K+2}, τ_bj, ℝ^K, m²_{i+1}</p>")
    '<p>m<sub>i</sub> of <code>m_i</code>, 1 − t<sup>2K+2</sup>, τ<sub>bj</sub>, ℝ<sup>K</sup>, m²<sub>i+1</sub></p>'
    >>> on_page_content('<div class="language-output highlight"><pre><code>w_i = τ |m_i|</code></pre></div>')
    '<div class="language-output highlight formula"><pre><code>w<sub>i</sub> = τ |m<sub>i</sub>|</code></pre></div>'
    >>> on_page_content('<p id="a_b">parameter_groups, final.pt_x</p>')
    '<p id="a_b">parameter_groups, final.pt_x</p>'
    """
    return _outside(_CODE, _BLOCK.sub(_block, html))


def _block(block: re.Match[str]) -> str:
    if not _FORMULA.search(block[0]):
        return block[0]  # a command
    return _outside(_TAG, block[0].replace("highlight", "highlight formula", 1))


def _outside(kept: re.Pattern[str], html: str) -> str:
    parts = kept.split(html)
    parts[::2] = [_ABOVE.sub(_set("sup"), _BELOW.sub(_set("sub"), part)) for part in parts[::2]]
    return "".join(parts)


def _set(tag: str) -> str:
    return rf"\1<{tag}>\2\3</{tag}>"
