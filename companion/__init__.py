"""What turns the library into the companion of the paper: notebooks' runs, records, tables, figures
and texts.

Runs go through `setup`, `data`, `training` and `evaluation` and leave records; `statistics` and
`results` compare them, once; `tables`, `figures` and `texts` show what was found. The library `saobp`
imports nothing from here.
"""
