"""The page where people watch a network doubt, and the JSON interface beside it: `tribayes serve`.

`networks` are drawn once and asked; `subject` has those of a run on images, `table` those of a run on a table. `asking`
and `row_answers` turn their samples into an answer; `ink` and `distortion` make the images; `curve` is the regression
that is fitted while one looks, `gallery` and `row_gallery` the run's tables and telling examples. `batching` asks
for several visitors at once; `gate`, `limits`, `monitoring` and `service` are the door, what is taken, the records and
the state of the server, `app` its addresses, `server` its life. The page itself is in `page/`: HTML, CSS and
JavaScript, nothing else.
"""
