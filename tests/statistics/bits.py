"""A small battery for words of 32 bits, after Knuth, Marsaglia and PractRand: p-values, two-sided.

Low bits are looked at by themselves: generators fail there first.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Words = NDArray[np.uint32]

_RANKS = (0.2887880951, 0.5775761902, 0.1336357147)  # of random 32 × 32 matrices over GF(2): 32, 31 and less
_DAYS, _BIRTHDAYS = 24, 512  # 2²⁴ days: about two equal spacings expected, Poisson (Marsaglia and Tsang 2002)
_YEARS = 4000  # whose count is Poisson to a fraction of its standard deviation


def battery(words: Words) -> dict[str, float]:
    """The p-values of all tests, by name."""
    low = (words & 0xFF).astype(np.uint8)
    return {
        "bits": bit_counts(words),
        "bytes": even(np.bincount(words.view(np.uint8), minlength=256)),
        "low bytes": even(np.bincount(low, minlength=256)),
        "pairs of high bytes": even(np.bincount(pairs(words >> 24), minlength=2**16)),
        "pairs of low bytes": even(np.bincount(pairs(low), minlength=2**16)),
        "gaps": gaps(words >> 29),
        "gaps of low bits": gaps(words & 7),
        "coupons": coupons(words >> 29),
        "coupons of low bits": coupons(words & 7),
        "runs of the highest bit": bit_runs(words >> 31),
        "runs of the lowest bit": bit_runs(words & 1),
        "birthdays": birthdays(words >> (32 - _DAYS)),
        "birthdays of low bits": birthdays(words & (2**_DAYS - 1)),
        "ranks": ranks(words),
        "Hamming weights": weights(words),
        "Hamming weights of neighbours' differences": weights(words[1:] ^ words[:-1]),
    }


def even(counts: NDArray[np.int64]) -> float:
    """Whether all cells are as likely: χ², too uneven or too even."""
    return fitted(counts, np.full(len(counts), counts.sum() / len(counts)))


def fitted(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    statistic = float((np.square(counts - expected) / expected).sum())
    law = stats.chi2(len(counts) - 1)
    return float(min(1.0, 2 * min(law.sf(statistic), law.cdf(statistic))))


def normal(score: float) -> float:
    """Two-sided, of a standard normal."""
    return math.erfc(abs(score) / math.sqrt(2))


def bit_counts(words: Words) -> float:
    """Ones at each of the 32 places."""
    ones = np.array([np.count_nonzero(words >> place & 1) for place in range(32)])
    scores = (2 * ones - len(words)) / math.sqrt(len(words))
    return float(stats.chi2(32).sf(np.square(scores).sum()))


def pairs(digits: NDArray[np.integer]) -> NDArray[np.int64]:
    """Two successive digits below 256 as one number; pairs do not overlap."""
    even_number = len(digits) // 2 * 2
    first, second = digits[:even_number:2].astype(np.int64), digits[1:even_number:2].astype(np.int64)
    return 256 * first + second


def gaps(digits: Words) -> float:
    """How long it takes from one 0 to the next, of digits below 8: geometric."""
    lengths, chance, cells = np.diff(np.flatnonzero(digits == 0)) - 1, 1 / 8, 40
    if not len(lengths):
        return 0.0
    counts = np.bincount(np.minimum(lengths, cells), minlength=cells + 1)
    law = chance * (1 - chance) ** np.arange(cells)
    return fitted(counts, len(lengths) * np.append(law, (1 - chance) ** cells))


def coupons(digits: Words, kinds: int = 8, most: int = 50) -> float:
    """How many digits it takes until all eight have come (Knuth, 3.3.2 D)."""
    lengths, seen, start = [], 0, 0
    complete = (1 << kinds) - 1
    for place, digit in enumerate(digits[: 2**20].tolist()):
        seen |= 1 << digit
        if seen == complete:
            lengths.append(place - start)
            seen, start = 0, place + 1
    if not lengths:
        return 0.0
    counts = np.bincount(np.minimum(np.array(lengths) + 1, most), minlength=most + 1)[kinds:]
    done = np.array([_all_come(kinds, draws) for draws in range(kinds - 1, most)])
    law = np.append(np.diff(done), 1 - done[-1])
    return fitted(counts, len(lengths) * law)


def _all_come(kinds: int, draws: int) -> float:
    """The probability that `draws` digits hold all kinds."""
    return sum((-1) ** k * math.comb(kinds, k) * (1 - k / kinds) ** draws for k in range(kinds + 1))


def bit_runs(bits: Words) -> float:
    """Changes from one bit to the next: n − 1 of probability one half."""
    changes, count = int(np.count_nonzero(bits[1:] != bits[:-1])), len(bits) - 1
    return normal((2 * changes - count) / math.sqrt(count))


def birthdays(days: Words) -> float:
    """Equal spacings among 512 birthdays in 2²⁴ days: two of them are, with probability m/2n. 4,000 years at most."""
    days = days[: _YEARS * _BIRTHDAYS]
    years = days[: len(days) // _BIRTHDAYS * _BIRTHDAYS].reshape(-1, _BIRTHDAYS).astype(np.int64)
    spacings = np.sort(np.diff(np.sort(years, axis=1), axis=1), axis=1)
    equal = int(np.count_nonzero(spacings[:, 1:] == spacings[:, :-1]))
    law = stats.poisson(len(years) * math.comb(_BIRTHDAYS - 1, 2) * _BIRTHDAYS / 2 ** (_DAYS + 1))
    return float(min(1.0, 2 * min(law.sf(equal - 1), law.cdf(equal))))


def ranks(words: Words) -> float:
    """Ranks of 32 × 32 matrices over GF(2), a word per row; 100,000 matrices at most."""
    matrices = words[: min(len(words) // 32, 100_000) * 32].reshape(-1, 32).copy()
    rank = np.zeros(len(matrices), dtype=np.int64)
    for place in range(32):
        bit = np.uint32(1 << place)
        free = np.where(np.arange(32) >= rank[:, None], (matrices & bit) != 0, False)
        found = free.any(axis=1)
        which, here = free.argmax(axis=1), np.flatnonzero(found)
        pivot = matrices[here, which[here]]
        matrices[here, which[here]] = matrices[here, np.minimum(rank[here], 31)]
        matrices[here, rank[here]] = pivot
        below = (np.arange(32) > rank[here, None]) & ((matrices[here] & bit) != 0)
        matrices[here] ^= np.where(below, pivot[:, None], np.uint32(0))
        rank[here] += 1
    counts = np.array([(rank == 32).sum(), (rank == 31).sum(), (rank < 31).sum()])
    return fitted(counts, len(matrices) * np.array(_RANKS) / sum(_RANKS))


def weights(words: Words) -> float:
    """Ones in a word beside those of the next: independent, and each light, usual or heavy as often as it should be."""
    ones = np.bitwise_count(words).astype(np.int64)
    kind = np.where(ones < 15, 0, np.where(ones > 17, 2, 1))
    even_number = len(kind) // 2 * 2
    counts = np.bincount(3 * kind[:even_number:2] + kind[1:even_number:2], minlength=9)
    light = float(stats.binom(32, 0.5).cdf(14))
    law = np.array([light, 1 - 2 * light, light])
    return fitted(counts, counts.sum() * np.outer(law, law).ravel())
