"""docs/results.md, its pictures and README's table, made from the result files and from nothing else.

    python -m tribayes.experiments.document            writes them
    python -m tribayes.experiments.document --check    says whether they are up to date

Whatever was run is shown; what was not says so. `page` puts the sections together, `build` writes and checks.
"""
