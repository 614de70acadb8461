"""Comparison of arrays: metrics, tolerances and verdicts, outputs.

`metrics` measures errors, `tolerance` decides verdicts, `arrays` compares outputs with
expected ones. NumPy only.
"""
