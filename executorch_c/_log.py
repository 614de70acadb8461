"""Logging: loggers "executorch_c" and "executorch_c.backend.<id>".

The levels are the reference's: its Debug, Info, Error and Fatal are DEBUG, INFO, ERROR, CRITICAL.
The package does not import logging: a program without it has no handlers. Calls of methods are
traced (Method.tracing), not logged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

    from executorch_c._core import Method, Program

NAME = "executorch_c"


def logger(child: str = "") -> Logger | None:
    """Return the package's logger or a child of it; None if logging is not imported."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    top: Logger = logging.getLogger(NAME)
    if not top.handlers:
        top.addHandler(logging.NullHandler())
    return top.getChild(child) if child else top


def debug(message: str, *args: object, child: str = "") -> None:
    """Log a step at DEBUG: programs, methods, delegates, plug-ins."""
    if (log := logger(child)) is not None:
        log.debug(message, *args)


def info(message: str, *args: object) -> None:
    """Log an override at INFO."""
    if (log := logger()) is not None:
        log.info(message, *args)


def error(message: str, *args: object) -> None:
    """Log an error that is not raised, at ERROR."""
    if (log := logger()) is not None:
        log.error(message, *args)


def _is_on(child: str = "") -> bool:
    log = logger(child)
    return log is not None and log.isEnabledFor(10)  # DEBUG


def _figures(figures: Mapping[str, object]) -> str:
    parts = []
    for name, value in figures.items():
        assert isinstance(value, int)
        parts.append(f"{name} {value:,}")
    return ", ".join(parts)


def program_loaded(what: tuple[Program, object, float]) -> None:
    """Log a loaded program: C calls it at the end of Runtime.load_program."""
    if not _is_on():
        return
    from executorch_c._render import text as _text  # its imports would delay the first output

    program, source, seconds = what
    name = f"a program in {type(source).__name__}"
    if isinstance(source, (str, os.PathLike)):
        name = str(os.fspath(source))
    debug(
        "loaded %s: %s bytes, methods %s, in %s",
        name,
        f"{program.info()['file_size']:,}",
        ", ".join(sorted(program.method_names)),
        _text.seconds(seconds),
    )


def method_loaded(what: tuple[Method, bool, float]) -> None:
    """Log a loaded method: C calls it at the end of Program.load_method."""
    method, reference, seconds = what
    if logger() is None:
        return
    name = method.metadata.name()
    delegates = method.backend_report()
    if _is_on():
        from executorch_c._render import text as _text

        backends = [one["backend"] for one in delegates]
        counts = {backend: backends.count(backend) for backend in backends}
        debug(
            "loaded method '%s': %s kernels, %s, delegates: %s; bytes: %s; in %s",
            name,
            "reference" if reference else "default",
            _text.plural(method.num_threads, "thread"),
            _figures(counts) or "none",
            _figures(method.memory()),
            _text.seconds(seconds),
        )
    for i, one in enumerate(delegates):
        if one["figures"] and _is_on(child := f"backend.{one['backend']}"):
            debug("delegate %d of method '%s': %s", i, name, _figures(one["figures"]), child=child)
