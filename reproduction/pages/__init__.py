"""docs/results.md, its pictures and README's part, made from the result files and from nothing else."""
