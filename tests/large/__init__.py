"""Long and large: what a short test cannot show, tried once and stored.

    python -m tests.large                    # a million steps, ten million rows; about an hour on two cores
    python -m tests.large steps --count 100_000
    python -m tests.large draw               # a billion weights in one tensor: 16 GB of memory
    python -m tests.faults.page              # docs/reliability.md from what was stored

The steps are on a GPU where there is one. Each takes a `--count`; tests/test_large.py runs all of them small.
"""
