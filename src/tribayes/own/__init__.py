"""Your own data: `tribayes fit table.csv --target COLUMN`, or `tribayes fit FOLDER` of images, a sub-folder per class.

`table_file` reads a table, once `csv_file` or Parquet's own header says that it can be read, and `schema` makes numbers
of its columns; `image_folder` reads images. `prepared` puts rows into three parts (`parts`): to train on, to calibrate
by, to judge by. `own_trainer` has network and training by the `setting`; `own_run` is the run in its folder; `judging`
scores it, `answers` asks it about new rows, `page` writes its report.
"""
