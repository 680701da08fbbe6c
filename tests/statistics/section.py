"""What docs/reliability.md says of random numbers, intervals, long trainings and large tensors, from stored figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pages.markdown import markdown_table
from tests.large.__main__ import FIGURES as LARGE
from tests.statistics.__main__ import FIGURES, LEAST, ON_GPU

Stored = Mapping[str, Any]

_STATISTICS = """
## Random numbers and intervals

`make statistics` puts every source of draws to one battery and every kind of interval to simulated truth; its p-values
are stored, and those of a generator without a fault are uniform on (0, 1). Of {tests} tests the smallest p-value is
{smallest:.2g} ({where}); with so many, one of at most {likely:.2g} is found by chance in half of all runs. A p-value
below {least:g} counts as a fault, which by chance happens in one run of {rate:,}.

- Of {tried:,} (seed, sample, module) {distinct:,} have a stream of their own, on a GPU and so on every device: the
  kernels take 62 bits of a stream's number, and the whole state of a CPU's generator begins with them.
- The kernels draw by Philox with seven rounds. Their integers are those of the twin that is tested here, bit by bit
  (tests/gpu/test_philox.py on a GPU, tests/interpreted/ in Triton's interpreter). With three rounds instead of seven
  the battery fails (tests/test_statistics.py).
{gpu}
"""

_GPU = """\
- The kernels' own normals, {normals} million of one large tensor and as many of short draws, were put to the battery on
  an {device}, too (`python -m tests.statistics --gpu`): of {tests} tests the smallest p-value is {smallest:.2g}.
"""

_INTERVALS = """
Coverage: a thousand data sets are simulated, with a truth each. In the first rows the weights are drawn from the prior
and their posterior is normal, as the family is, so that the intervals should hold it as often as they say (with
`kl_weight=1`; {samples} draws hold slightly less). In the last ones a network has far too little noise: as it was
trained it holds too few, and `tb.conformalise` with 99 held-out rows mends it whatever the network.

"""

_LARGE = """
## Long and large

`make large`, on a CPU where nothing else is said; on a GPU the last weights of 10⁹ and of 2³¹ are compared with their
normals (tests/gpu/test_large.py):

"""


def section() -> str:
    """Both parts of the page, from the stored figures."""
    figures = [json.loads(path.read_text()) for path in (FIGURES, ON_GPU, LARGE)]
    return statistics(*figures[:2]) + large(figures[2])


def statistics(stored: Stored, on_gpu: Stored) -> str:
    """Random numbers and intervals: on a CPU, and what was put to the test on a GPU."""
    trials = stored["trials"]
    tables = {name: by_source(trials[name]) for name in ("words", "normals", "neighbours")}
    values = [(p, f"{source}: {test}") for source, test, p in p_values(trials)]
    smallest, where = min(values)
    count = len(values)
    text = _STATISTICS.format(
        tests=count,
        smallest=smallest,
        where=where,
        likely=1 - 0.5 ** (1 / count),
        least=LEAST,
        rate=1000 * round(1e-3 / (count * LEAST)),
        gpu=by_triton(on_gpu),
        **trials["names"],
    )
    header = ["source", "how many", "tests", "smallest p"]
    titles = ["words of 32 bits", "normals", "streams beside each other, 1,000 normals of each"]
    for title, rows in zip(titles, tables.values(), strict=True):
        text += markdown_table([f"{header[0]}: {title}", *header[1:]], rows) + "\n"
    return text.rstrip("\n") + "\n" + intervals(trials["intervals"]) + origin(stored)


def by_triton(stored: Stored) -> str:
    """What a GPU's own draws came to."""
    found = stored["trials"]["triton"]
    values = [value for each in found.values() for value in each["p"].values()]
    millions = round(next(iter(found.values()))["count"] / 1e6)
    return _GPU.format(normals=millions, device=stored["device"], tests=len(values), smallest=min(values))


def p_values(trials: Stored) -> list[tuple[str, str, float]]:
    """(source, test, p) of all batteries."""
    return [
        (source, test, p)
        for name in ("words", "normals", "neighbours")
        for source, found in trials[name].items()
        for test, p in found["p"].items()
    ]


def by_source(found: Stored) -> list[list[str]]:
    rows = []
    for source, each in found.items():
        p = each["p"]
        rows.append([source, f"{each['count']:,}", str(len(p)), f"{min(p.values()):.2g}"])
    return rows


def intervals(found: Stored) -> str:
    """Coverage beside what it should be."""
    rows: list[Sequence[str]] = []
    for case, counts in found.items():
        for name, each in counts.items():
            share, expected = each["held"] / each["of"], each["expected"]
            rows.append([case, name, f"{each['of']:,}", f"{100 * expected:.1f} %", f"{100 * share:.1f} %"])
    table = markdown_table(["truth", "interval, level", "repetitions", "should hold", "held"], rows)
    return _INTERVALS.format(samples=401) + table


def large(stored: Stored) -> str:
    lines = [f"- {describe(stored[name])}\n" for name, describe in _LINES.items() if name in stored]
    return _LARGE + "".join(lines) + origin(next(iter(stored.values())))


def _steps(found: Stored) -> str:
    place = f" on {found['device']}" if "device" in found else ""
    text = (
        f"A training of {found['steps']:,.0f} steps of a small network{place} ended with a loss of {found['loss']:.3f};"
        f" at every look all parameters were finite, τ between {found['tau_least']:.2g} and {found['tau_largest']:.2g}"
        f" and |ρ| at most {found['rho_largest']:.5f}, where ½ is never reached."
    )
    short = found["steps"] < 1_000_000
    return f"{text} The million that the command does has not been run for this page." if short else text


def _rows(found: Stored) -> str:
    fit, ask, answer = (_mega(found[f"{name}_bytes"]) for name in ("fit_growth", "predict_growth", "answer"))
    return (
        f"{found['rows']:,.0f} rows ({_mega(found['data_bytes'])} MB) from a loader: `fit` grew by {fit} MB;"
        f" `predict(keep_samples=False)` by {ask} MB, of which the answer itself is {answer} MB and the rest is what"
        " the allocator keeps in small pieces."
    )


def _draw(found: Stored) -> str:
    return (
        f"{found['weights']:,.0f} weights in one tensor: each is what its two normals make, read from the same stream a"
        f" piece at a time, to {found['worst']:.1g}. A draw takes {found['bytes_per_weight']:.0f} bytes per weight"
        " beside the means, and the command refuses where the machine has fewer."
    )


def _mega(size: float) -> str:
    return f"{size / 1e6:,.0f}"


_LINES = {"steps": _steps, "rows": _rows, "draw": _draw}


def origin(stored: Stored) -> str:
    return f"\nPython {stored['python']}, torch {stored['torch']}; {stored['date']}.\n"
