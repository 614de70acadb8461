"""Inspection of programs: instructions, graph, planned memory; and of what devices recorded.

    from executorch_c.inspect import read_etdump, read_etrecord

The other public names are in `executorch_c.devtools`.
"""

from __future__ import annotations

from executorch_c.inspect.etdump_report import ETDump, read_etdump
from executorch_c.inspect.etrecord import ETRecord, read_etrecord

__all__ = ["ETDump", "ETRecord", "read_etdump", "read_etrecord"]
