"""A device's run beside ours: who is at fault where a device computes something else, and where.

Users find `blame` in `executorch_c.devtools`. `device.py` reads what came from the device,
`places.py` names the nodes of a program, `replay.py` runs the program with other values in the
place of its own (`Method.tracing(alter=)`), `arithmetic.py` knows how devices round, `locating.py`
finds the first node at which a device leaves, `verdict.py` and `report.py` say who is at fault.
"""
