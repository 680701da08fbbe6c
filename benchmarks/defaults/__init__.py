"""The study behind kl_weight="auto" and the default prior: `python -m benchmarks.defaults --help`."""
