"""Comparison of arrays: metrics, tolerances and verdicts, outputs.

`metrics` measures errors, `tolerance` and `verdicts` judge them, `arrays` compares outputs with
expected ones. NumPy only.
"""
