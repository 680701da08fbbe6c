"""The page's look, for a phone first: one column, no scripts, nothing fetched; light or dark as the reader's device."""

CSS = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5c5c5c; --paper: #ffffff; --line: #d5d5d5; --tint: #f3f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --soft: #a9a9a9; --paper: #16181b; --line: #3a3d42; --tint: #22252a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; padding-top: .6rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 42rem; }
.lead { font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); font-size: .9rem; padding-bottom: .3rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
thead th { border-bottom: 2px solid var(--line); }
.number { text-align: right; white-space: nowrap; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.2rem 1.8rem; align-items: start;
  margin: .8rem 0; }
@media (min-width: 46rem) { .beside { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media (min-width: 72rem) { .beside.three { grid-template-columns: repeat(3, minmax(0, 1fr)); } }
figure { margin: 0; }
figure img { display: block; width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line);
  border-radius: 6px; padding: 4px; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .4rem; }
dl { margin: .5rem 0; max-width: 42rem; }
dt { font-weight: 600; margin-top: .5rem; }
dd { margin: 0; }
footer { margin-top: 2.5rem; padding-top: .6rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .85rem; }
@media (max-width: 30rem) { body { padding: .75rem; } table { font-size: .85rem; } th, td { padding-right: .55rem; } }
@media print { body { max-width: none; } figure, table { break-inside: avoid; } }
"""
