"""Rounding noise of PyTorch models: runs with random `rounding` of each operator, with the terms
of `sums`, `absolute` errors and `ties` of sorts. Needs torch.
"""
