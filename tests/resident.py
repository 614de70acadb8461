"""Resident memory of this process (Linux)."""

from pathlib import Path


def mapping(path: Path) -> dict[str, int]:
    """Return the kilobytes of a file that are mapped, resident and locked."""
    table = {"Size": 0, "Rss": 0, "Locked": 0}
    inside = False
    with open("/proc/self/smaps") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if "-" in name and " " in line:
                inside = line.rstrip().endswith(str(path))
            elif inside and name in table:
                table[name] += int(rest.split()[0])
    return table


def resident_bytes(kind: str) -> int:
    """Return the resident bytes of a kind: VmRSS (all), RssAnon (heap, stacks, private mappings),
    RssFile."""
    with open("/proc/self/status") as file:
        [line] = [line for line in file if line.startswith(f"{kind}:")]
    return int(line.split()[1]) * 1024
