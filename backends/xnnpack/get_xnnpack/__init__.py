"""Find the XNNPACK to link the backend with, or build it from Debian's source.

setup.py calls `find()`; `python -m get_xnnpack` prints the prefix. The candidates, in order:

1. XNNPACK_ROOT, a prefix (include/xnnpack.h, lib/libXNNPACK.a or .so, and its dependencies): if it
   is set, it must be usable;
2. /usr/local and /usr, if the version is new enough;
3. the cache: EXECUTORCH_C_CACHE, or ~/.cache/executorch_c;
4. a build: sources from apt-get, compiled with cmake and ninja, kept in the cache.

An XNNPACK is usable if a probe with the backend's functions compiles, links and runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from get_xnnpack.recipe import build, cached
from get_xnnpack.library import Library, load
from get_xnnpack.log import Log, XnnpackError

__all__ = ["Library", "Log", "XnnpackError", "find", "is_pinned"]

SYSTEM = (Path("/usr/local"), Path("/usr"))
HELP = """XnnpackBackend cannot be built: {why}
Either set XNNPACK_ROOT=<prefix> to an XNNPACK of your own (include/xnnpack.h, lib/libXNNPACK.a,
with pthreadpool and cpuinfo; November 2024 or later),
or set EXECUTORCH_C_XNNPACK=0 to install without XnnpackBackend."""


def find(log: Log | None = None) -> Library:
    """Return a usable XNNPACK, built if necessary; XnnpackError explains the alternatives."""
    log = log or Log()
    try:
        root = os.environ.get("XNNPACK_ROOT")
        if root:
            return load(Path(root).expanduser().resolve())
        return installed(log) or built(log)
    except XnnpackError as error:
        raise XnnpackError(HELP.format(why=error)) from None


def is_pinned() -> bool:
    """Return whether `find()` returns a build of the pinned sources."""
    return not os.environ.get("XNNPACK_ROOT") and installed(Log()) is None


def installed(log: Log) -> Library | None:
    """Return the system's XNNPACK; None if it is missing or too old."""
    for root in SYSTEM:
        if not (root / "include" / "xnnpack.h").exists():
            continue
        try:
            return load(root)
        except XnnpackError as error:
            log.say(f"XNNPACK in {root} is not used: {error}")
    return None


def built(log: Log) -> Library:
    """Return the cached XNNPACK, built first if it is missing."""
    prefix = cached()
    if not prefix.exists():
        build(prefix, log)
    try:
        return load(prefix)
    except XnnpackError as error:
        raise XnnpackError(f"{error} (to build it again, delete {prefix})") from None
