"""Comparison of arrays: metrics, tolerances and verdicts, outputs.

`metrics` measures, `tolerance` decides (the only place that does), `arrays` compares outputs with
expected ones. NumPy only.
"""
