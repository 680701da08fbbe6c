"""What being Bayesian does to modern networks: `python -m benchmarks.modern --help`."""
