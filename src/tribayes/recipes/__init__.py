"""The paper's networks and settings, and the embedded digits, as ready recipes for `tribayes fit`.

`experiments` names them, `recipe_trainer` trains one as Caffe would, `recipe_run` is its run, for the command `fit`;
`image_files` is for `predict`.
"""
