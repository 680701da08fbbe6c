"""Do intervals and sets hold what they promise? `python -m benchmarks.coverage --help`."""
