"""Programs with other outputs: values inside a method or delegate, as the same runtime and backend
compute them.

`method.py` changes a method, `places.py` its planned memory, `program.py` reads and writes the
file; `window.py` makes a program of some of its nodes. `kinds.py` has a row for each kind of
payload: `xnnpack.py`, `vulkan.py`, `tosa.py`, `mlx.py`, `native.py` (FlatBuffers, `flat.py`),
`coreml.py` (protobuf, `protobuf.py`).
"""
