"""Generated pages: what `reproduction` and `benchmarks` share.

A page, and the block of README.md that belongs to it, are made from stored results alone, so that `--check` can say
whether they are up to date.
"""
