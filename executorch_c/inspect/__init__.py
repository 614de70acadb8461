"""Inspection of programs: instructions, graph, planned memory, and traces for the official tools.

The public names are in `executorch_c.devtools`.
"""
