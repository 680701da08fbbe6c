"""The paper's experiments made again: trained, judged, written down, and shown on docs/results.md.

    python -m reproduction reproduce SUITE     trains what is missing, and writes results/
    python -m reproduction results             writes docs/results.md, its pictures and README's part from results/
    python -m reproduction results --check     says whether they are up to date

Rooms, each importing only from those before it: `paper` (what was printed, what was tried), `results` (the files and
the figures in them, held against targets), `training` (suites of runs), `pages`. Whatever was run is shown; what was
not says so.
"""
