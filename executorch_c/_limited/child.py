"""The process with limits: a script that answers the requests of its parent, one at a time.

It is run by its path, and imports no module of executorch_c. The first frame has the folders of
packages, their names, the file of the service and the limit of memory. Each later frame is
(seconds, request), and is answered by what `answer(request)` of the service returns. Requests come
from the process that started this one and are read by marshal. Replies are a byte and text or
bytes, which the parent does not trust; the first one is "ready".
"""

from __future__ import annotations

import importlib
import importlib.util
import marshal
import os
import resource
import signal
import struct
import sys
from typing import Any

MAX_MESSAGE = 2000
"""Characters of an error's message."""
BYTES, TEXT, REFUSED, MEMORY = b"b", b"t", b"r", b"m"
"""First byte of a reply: bytes, text, an exception ("type\\0message"), MemoryError."""


def read(descriptor: int, size: int) -> bytes:
    """Return the next bytes. Raises EOFError if the other side has closed the connection."""
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive(descriptor: int) -> Any:
    """Return the next frame's value."""
    (size,) = struct.unpack("<Q", read(descriptor, 8))
    return marshal.loads(read(descriptor, size))


def send(descriptor: int, tag: bytes, data: bytes) -> None:
    """Write a reply."""
    view = memoryview(struct.pack("<Q", 1 + len(data)) + tag + data)
    while view:
        view = view[os.write(descriptor, view) :]


def limit(address_space: int) -> None:
    """Allow more memory by a number of bytes, and no further file."""
    pages = 0
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    size = pages * resource.getpagesize() + address_space
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))  # open ones stay


def reply(service: Any, seconds: float, request: Any) -> tuple[bytes, bytes]:
    """Return the reply to a request. Processor time beyond `seconds` ends this process."""
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        result = service.answer(request)
        if isinstance(result, str):
            return TEXT, result.encode("utf-8", "surrogatepass")
        return BYTES, result
    except MemoryError:
        return MEMORY, b""
    except BaseException as error:  # PanicException of pyo3 is no Exception
        return refusal(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def refusal(error: BaseException) -> tuple[bytes, bytes]:
    """Return the reply of an exception."""
    try:
        message = str(error)[:MAX_MESSAGE]
    except BaseException:  # its text is too long, or is no text
        message = ""
    text = f"{type(error).__name__}\0{message}"
    return REFUSED, text.encode("utf-8", "surrogatepass")


def main(descriptor: int) -> None:
    """Answer requests until the connection is closed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # a parent's SIG_IGN and mask are inherited
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folders, packages, path, address_space = receive(descriptor)
    sys.path += folders
    spec = importlib.util.spec_from_file_location("service", path)
    assert spec is not None and spec.loader is not None
    service = importlib.util.module_from_spec(spec)
    try:
        for name in packages:
            importlib.import_module(name)
        spec.loader.exec_module(service)
        limit(address_space)
    except Exception as error:
        send(descriptor, *refusal(error))
        return
    send(descriptor, TEXT, b"ready")
    while True:
        seconds, request = receive(descriptor)
        send(descriptor, *reply(service, seconds, request))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except (EOFError, OSError):
        pass
    except MemoryError:  # of a frame
        send(int(sys.argv[1]), MEMORY, b"")
    os._exit(0)
