"""Tables of official schemas (.fbs) in the notation of executorch_c/_flatbuffers.py."""

import importlib.resources
import re

SIZES = {
    "bool": 1,
    "byte": 1,
    "ubyte": 1,
    "uint8": 1,
    "int": 4,
    "uint": 4,
    "int32": 4,
    "uint32": 4,
    "long": 8,
    "ulong": 8,
    "int64": 8,
    "uint64": 8,
    "double": 8,
}


def texts(package: str, *names: str) -> str:
    """Return the texts of files of an installed package, without comments and attributes."""
    folder = importlib.resources.files(package)
    return re.sub(r"//.*|\(.*?\)", "", "\n".join((folder / name).read_text() for name in names))


def tables(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of each table, in the order of their numbers."""
    sizes = dict(SIZES)
    sizes |= {name: SIZES[kind] for name, kind in re.findall(r"enum (\w+)\s*:\s*(\w+)", text)}
    unions = {
        name: "|" + "|".join(re.findall(r"\w+", body))
        for name, body in re.findall(r"union (\w+) \{(.*?)\}", text, re.DOTALL)
    }
    entries: dict[str, dict[str, str]] = {}
    for table, body in re.findall(r"table (\w+) \{(.*?)\}", text, re.DOTALL):
        fields = entries.setdefault(table, {})
        for name, left, kind, right in re.findall(r"(\w+)\s*:\s*(\[?)([\w.]+)(\]?)", body):
            kind = kind.rpartition(".")[2]
            if kind in unions:
                fields[f"{name}_type"] = "1"
            fields[name] = f"{left}{unions.get(kind, sizes.get(kind, kind))}{right}"
    return entries
