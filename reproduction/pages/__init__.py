"""docs/results.md, its pictures and README's table, made from the result files and from nothing else."""
