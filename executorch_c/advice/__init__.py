"""Layers of a model to keep in float so that its quantised program reaches a target.

`targets.py` reads the target, `configuration.py` writes the quantiser's configuration as code.
`simulation.py` runs the quantised graph in eager with any layers in float, `search.py` looks for
the fewest, `programs.py` makes and measures programs, `run.py` (`advise`) does all of it,
`report.py` shows it.
"""
