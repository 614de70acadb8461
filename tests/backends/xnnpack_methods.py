"""Methods with options of XnnpackBackend, and runs of code in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from executorch_c import Method, Program, Runtime
from tests import process
from tests.backends.xnnpack_payload import BACKEND


def load(
    source: bytes | Path | Program,
    name: str = "forward",
    mode: int | None = None,
    cached: bool = True,
    **options: Any,
) -> Method:
    """Load a method with a way of sharing workspaces, and with or without a cache of weights."""
    program = source if isinstance(source, Program) else Runtime.get().load_program(source)
    chosen = {} if mode is None else {"workspace_sharing_mode": mode}
    backend = {BACKEND: {"weight_cache_enabled": cached, **chosen}}
    return program.load_method(name, backend_options=backend, **options)


def run_code(code: str, file: Path, *arguments: object, **env: str) -> list[str]:
    """Return the words that code prints about a file in another process, in the file's folder."""
    environment = {**os.environ, **env}
    done = process.python("-c", code, file, *arguments, cwd=file.parent, env=environment)
    return done.stdout.split()
