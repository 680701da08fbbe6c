"""The fault suite: what may go wrong is made to go wrong, often, and what came of it is counted.

    python -m tests.faults                # everything, about half an hour; writes counts.json
    python -m tests.faults --scale 0.1    # a tenth of it
    python -m tests.faults.page           # docs/reliability.md from the stored counts; --check compares

pytest does not collect it, but `tests/test_faults.py` runs a small sample of every trial.
"""
