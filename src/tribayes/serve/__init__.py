"""The page where people watch a network doubt, and the JSON interface beside it: `tribayes serve`.

`subject` is the run that is asked, `asking` turns its samples into an answer, `ink` and `distortion` make the images;
`curve` is the regression that is fitted while one looks, `gallery` the run's tables and telling images. `batching` asks
for several visitors at once; `gate`, `monitoring` and `service` are the door, the records and the state of the server,
`app` its addresses, `server` its life. The page itself is in `page/`: HTML, CSS and JavaScript, nothing else.
"""
