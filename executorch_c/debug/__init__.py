"""Localisation of faults: by layer, by program, by the first NaN.

Users find the functions in `executorch_c.devtools`: `layers` (explain), `programs`
(compare_programs), `quantization` (quantization_error), `nonfinite` (check_nan). All but the last
return an ErrorReport of `report`.

`_graphs` runs a program and the graph of its model, `_matching` pairs their values
(docs/explanation/matching.md has an example), `_judge` walks the graph and gets the verdicts: its
values are those of `_runs`, its errors those of `_local`, its limits those of `compare.nodes` and
`_graph_noise`. Torch is imported by these modules only, when a function is called.
"""
