"""Random numbers and intervals under suspicion: one battery for every source of draws, and coverage of simulated truth.

    python -m tests.statistics            # the long version, stored in figures.json: about a quarter of an hour
    python -m tests.statistics --short    # what tests/test_statistics.py runs
    python -m tests.faults.page           # docs/reliability.md from what was stored

Every figure of the batteries is a p-value: uniform on (0, 1) for a generator without a fault.
"""
