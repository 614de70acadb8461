"""Programs laid open: instructions, graph, memory, traces of calls as the official tools read them.

Users find the functions in `executorch_c.devtools`.
"""
