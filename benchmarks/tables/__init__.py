"""tribayes's estimators beside boosting and conformal prediction: `python -m benchmarks.tables --help`."""
