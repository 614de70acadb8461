"""Where a program goes wrong: layer by layer, program by program, not-a-number by number.

Users find the functions in `executorch_c.devtools`. Torch is imported only by what compares with a
PyTorch model, when it is called.
"""
