"""Small regressions by every arm, on the UCI three: `python -m benchmarks.regressions --help`."""
