"""Gets the XNNPACK that the backend is linked with: finds one, or builds one from Debian's source.

`find()` is what setup.py calls; `python -m get_xnnpack` prints the prefix. In this order:

1. XNNPACK_ROOT, a prefix (include/xnnpack.h, lib/libXNNPACK.a or .so, and its dependencies): if it
   is set it must be usable;
2. /usr/local and /usr, if what is there is new enough;
3. the cache: EXECUTORCH_C_CACHE, or ~/.cache/executorch_c;
4. a build: sources by apt-get, compiled with cmake and ninja, kept in the cache.

Usable means: a probe that names the functions that the backend needs compiles, links and runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from get_xnnpack.recipe import build, cached
from get_xnnpack.library import Library, load
from get_xnnpack.log import Log, XnnpackError

__all__ = ["Library", "Log", "XnnpackError", "find"]

SYSTEM = (Path("/usr/local"), Path("/usr"))
HELP = """XnnpackBackend cannot be built: {why}
Either set XNNPACK_ROOT=<prefix> to an XNNPACK of your own (include/xnnpack.h, lib/libXNNPACK.a,
pthreadpool and cpuinfo beside it; November 2024 or later),
or set EXECUTORCH_C_XNNPACK=0 to install without XnnpackBackend."""


def find(log: Log | None = None) -> Library:
    """An XNNPACK that works, built if there is none; XnnpackError says what to do otherwise."""
    log = log or Log()
    try:
        given = os.environ.get("XNNPACK_ROOT")
        if given:
            return load(Path(given).expanduser().resolve())
        return installed(log) or built(log)
    except XnnpackError as error:
        raise XnnpackError(HELP.format(why=error)) from None


def installed(log: Log) -> Library | None:
    """The system's XNNPACK, unless it is too old or there is none."""
    for root in SYSTEM:
        if not (root / "include" / "xnnpack.h").exists():
            continue
        try:
            return load(root)
        except XnnpackError as error:
            log.say(f"XNNPACK in {root} is not used: {error}")
    return None


def built(log: Log) -> Library:
    """The cached XNNPACK, made now if it is not there."""
    prefix = cached()
    if not prefix.exists():
        build(prefix, log)
    try:
        return load(prefix)
    except XnnpackError as error:
        raise XnnpackError(f"{error} (to build it again, delete {prefix})") from None
