"""docs/performance.md, made from the stored result files of the performance benchmarks."""
