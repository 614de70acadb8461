"""Constants of a program in a smaller one: where the program's file differs from what the flow
makes, the small program gets the file's bytes.

The flow stores a constant of the small program as it does in the whole one. So the bytes at which
the file differs from the flow's program are looked up in the small program, and replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

MAX_GAP = 64
"""Maximum number of equal bytes between different ones of one constant."""
MAX_CONTEXT = 4096
"""Maximum number of equal bytes around different ones that are looked up with them."""
MAX_PLACES = 256
"""Maximum number of places that are looked up."""


def is_alike(file: bytes, fresh: bytes) -> bool:
    """Return True if a file has the constants of the flow's program at the same places, as far as
    their sizes tell."""
    return len(file) == len(fresh)


def places(file: bytes, fresh: bytes) -> list[slice]:
    """Return the places at which two files of one size differ; those near each other are one."""
    a, b = np.frombuffer(file, np.uint8), np.frombuffer(fresh, np.uint8)
    (off,) = np.nonzero(a != b)
    if not off.size:
        return []
    ends = np.nonzero(np.diff(off) > MAX_GAP)[0]
    starts = [0, *(ends + 1)]
    stops = [*ends, off.size - 1]
    return [slice(int(off[i]), int(off[j]) + 1) for i, j in zip(starts, stops)]


def transplanted(small: bytes, file: bytes, fresh: bytes) -> tuple[bytes, int]:
    """Return a small program with the file's bytes for the flow's, where they differ, and how many
    bytes these are: 0 if it has none of them."""
    result, count = bytearray(small), 0
    for place in places(file, fresh)[:MAX_PLACES]:
        for part in (place, *_parts(file, fresh, place)):
            at = _find(small, fresh, part)
            if at is None:
                continue
            result[at : at + part.stop - part.start] = file[part]
            count += sum(x != y for x, y in zip(file[part], fresh[part]))
            if part is place:
                break
    return bytes(result), count


def _parts(file: bytes, fresh: bytes, place: slice) -> Iterator[slice]:
    """Yield the runs of different bytes of a place."""
    start = None
    for at in range(place.start, place.stop + 1):
        differs = at < place.stop and file[at] != fresh[at]
        if differs and start is None:
            start = at
        if not differs and start is not None:
            yield slice(start, at)
            start = None


def _find(small: bytes, fresh: bytes, place: slice) -> int | None:
    """Return where a small program has the bytes of a place, with as many of those around it as it
    takes to find one place only; None if there is none, or several."""
    low, high = place.start, place.stop
    if small.find(fresh[low:high]) < 0:
        return None
    step = 1
    while step <= MAX_CONTEXT:
        text = fresh[low:high]
        at = small.find(text)
        if small.find(text, at + 1) < 0:
            return at + place.start - low
        wider = max(low - step, 0), high + step
        if small.find(fresh[slice(*wider)]) >= 0:
            low, high = wider
            step *= 2
        elif small.find(fresh[low : high + step]) >= 0:
            high += step
        elif small.find(fresh[max(low - step, 0) : high]) >= 0:
            low = max(low - step, 0)
        elif step > 1:
            step //= 2
        else:
            return None
    return None
