"""Constants of a program in a smaller one: where the program's file differs from what the flow
makes, the small program gets the file's bytes.

The flow stores a constant of the small program as it does in the whole one. So what the flow has in
the place of the file's own bytes is looked up in the small program, and replaced. Files store
constants at multiples of 16 bytes, in an order that may depend on their contents: both files are
compared by words of 16 bytes, wherever these stand. Names of constants that are digests of their
contents stay those of the flow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

WORD = 16
MAX_CONTEXT = 4096
"""Maximum number of equal bytes around different ones that are looked up with them."""
MAX_PLACES = 256
"""Maximum number of places that are looked up."""
MAX_PERMUTED = 1024
"""Maximum number of words in another order."""
HEX = frozenset(b"0123456789abcdef")

Pair = tuple[slice, slice]
"""A place in the flow's program, and what stands for it in the file."""


def _words(data: bytes) -> list[bytes]:
    return [data[at : at + WORD] for at in range(0, len(data), WORD)]


def _matched(fresh: list[bytes], file: list[bytes]) -> dict[int, int]:
    """Return the words of `file` that stand for words of `fresh`: those that both have once, and
    equal ones beside them."""
    once = [{w for w, n in Counter(words).items() if n == 1} for words in (fresh, file)]
    places = {word: j for j, word in enumerate(file)}
    matched = {i: places[w] for i, w in enumerate(fresh) if w in once[0] and w in once[1]}
    taken = set(matched.values())
    for step in (1, -1):
        for i in sorted(matched, reverse=step < 0):
            i, j = i + step, matched[i] + step
            inside = 0 <= i < len(fresh) and 0 <= j < len(file)
            while inside and i not in matched and j not in taken and fresh[i] == file[j]:
                matched[i] = j
                taken.add(j)
                i, j = i + step, j + step
                inside = 0 <= i < len(fresh) and 0 <= j < len(file)
    return matched


def _runs(numbers: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of runs of consecutive numbers."""
    start = last = -2
    for number in numbers:
        if number != last + 1:
            if start >= 0:
                yield start, last + 1
            start = number
        last = number
    if start >= 0:
        yield start, last + 1


def pairs(file: bytes, fresh: bytes) -> list[Pair]:
    """Return the places of constants at which the file differs from the flow's program: between
    words that both have, or runs of a length that each has once."""
    ours, theirs = _words(fresh), _words(file)
    matched = _matched(ours, theirs)
    result, open_runs = list[Pair](), defaultdict[int, list[int]](list)
    used = set(matched.values())
    for start, stop in _runs(i for i in range(len(ours)) if i not in matched):
        at = next(
            (
                matched[one] + there
                for one, there in ((start - 1, 1), (stop, start - stop))
                if one in matched and _is_free(matched[one] + there, stop - start, used, theirs)
            ),
            None,
        )
        if at is None:
            open_runs[stop - start].append(start)
            continue
        used.update(range(at, at + stop - start))
        result.append(_bytes(start, at, stop - start))
    rest = defaultdict[int, list[int]](list)
    for start, stop in _runs(j for j in range(len(theirs)) if j not in used):
        rest[stop - start].append(start)
    for length, starts in open_runs.items():
        if len(starts) == len(rest[length]) == 1:
            result.append(_bytes(starts[0], rest[length][0], length))
    result = [pair for pair in result if not _are_digests(fresh[pair[0]], file[pair[1]])]
    return result or list(_permuted(ours, theirs, matched))


def _permuted(ours: list[bytes], theirs: list[bytes], matched: dict[int, int]) -> Iterator[Pair]:
    """Yield places that have the same words in another order, between words that stand alike."""
    start = shift = None
    for i in range(len(ours)):
        here = matched[i] - i if i in matched else None
        if start is not None and shift is not None and here == shift:
            if start + 1 < i:
                there = theirs[start + 1 + shift : i + shift]
                if Counter(there) == Counter(ours[start + 1 : i]):
                    yield _bytes(start + 1, start + 1 + shift, i - start - 1)
            start = i
        elif start is None or shift is None or _never_again(matched, i, shift):
            start, shift = (i, here) if here is not None else (None, None)


def _never_again(matched: dict[int, int], i: int, shift: int) -> bool:
    """Return True if no word soon after one stands alike."""
    return not any(matched.get(k) == k + shift for k in range(i + 1, i + MAX_PERMUTED))


def _is_free(at: int, length: int, used: set[int], words: list[bytes]) -> bool:
    return 0 <= at and at + length <= len(words) and used.isdisjoint(range(at, at + length))


def _bytes(start: int, at: int, length: int) -> Pair:
    return (
        slice(start * WORD, (start + length) * WORD),
        slice(at * WORD, (at + length) * WORD),
    )


def _are_digests(ours: bytes, theirs: bytes) -> bool:
    """Return True if two texts differ in hexadecimal digits only."""
    return all(x in HEX and y in HEX for x, y in zip(ours, theirs) if x != y)


def transplanted(small: bytes, file: bytes, fresh: bytes, places: list[Pair]) -> tuple[bytes, int]:
    """Return a small program with the file's bytes for the flow's, and how many bytes these are: 0
    if it has none of them."""
    result, count = bytearray(small), 0
    for ours, theirs in places[:MAX_PLACES]:
        wanted, given = fresh[ours], file[theirs]
        off = [i for i, (x, y) in enumerate(zip(wanted, given)) if x != y]
        if not off or len(given) != len(wanted):
            continue
        low, high = off[0], off[-1] + 1
        at = _find(small, fresh, slice(ours.start + low, ours.start + high))
        if at is not None:
            result[at : at + high - low] = given[low:high]
            count += len(off)
    return bytes(result), count


def _find(small: bytes, fresh: bytes, place: slice) -> int | None:
    """Return where a small program has the bytes of a place, with as many of those around it as it
    takes to find one place only; None if there is none, or several."""
    low, high = place.start, place.stop
    if small.find(fresh[low:high]) < 0:
        return None
    step = 1
    while step:
        at = small.find(fresh[low:high])
        if small.find(fresh[low:high], at + 1) < 0:
            return int(at + place.start - low)
        wider = ((max(low - step, 0), high + step), (low, high + step), (max(low - step, 0), high))
        found = next((one for one in wider if small.find(fresh[slice(*one)]) >= 0), None)
        if found is None:
            step //= 2
            continue
        low, high = found
        step = min(step * 2, MAX_CONTEXT)
        if high - low > MAX_CONTEXT:
            return None
    return None
