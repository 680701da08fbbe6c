"""Where correlation pays: other correlations, rough and smooth inputs: `python -m benchmarks.correlation --help`."""
