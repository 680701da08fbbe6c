"""Which rule moves δ and γ best without tuning: `python -m benchmarks.scale_steps --help`."""
