"""Suites of runs: what belongs to them, what is still to be made, and making it."""
