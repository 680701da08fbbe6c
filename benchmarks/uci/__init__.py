"""UCI regression beside published figures: `python -m benchmarks.uci --help`."""
