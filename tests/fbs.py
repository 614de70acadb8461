"""Tables of official schemas (.fbs) in the notation of executorch_c/_flatbuffers.py."""

import importlib.resources
import re

SIZES = {
    "bool": 1,
    "byte": 1,
    "ubyte": 1,
    "uint8": 1,
    "short": 2,
    "ushort": 2,
    "int": 4,
    "uint": 4,
    "int32": 4,
    "uint32": 4,
    "long": 8,
    "ulong": 8,
    "int64": 8,
    "uint64": 8,
    "float": 4,
    "double": 8,
}


def texts(package: str, *names: str) -> str:
    """Return the texts of files of an installed package, without comments and attributes."""
    folder = importlib.resources.files(package)
    return re.sub(r"//.*|\(.*?\)", "", "\n".join((folder / name).read_text() for name in names))


def tables(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of each table, in the order of their numbers. A member of a union that has
    a name of its own is a table of this name, too."""
    sizes = dict(SIZES)
    sizes |= {name: SIZES[kind] for name, kind in re.findall(r"enum (\w+)\s*:\s*(\w+)", text)}
    bodies = dict(re.findall(r"union (\w+) \{(.*?)\}", text, re.DOTALL))
    members = {name: re.findall(r"(\w+)(?:\s*:\s*(\w+))?", body) for name, body in bodies.items()}
    unions = {name: "|".join(["", *(one for one, _ in each)]) for name, each in members.items()}
    entries: dict[str, dict[str, str]] = {}
    for table, body in re.findall(r"table (\w+) \{(.*?)\}", text, re.DOTALL):
        fields = entries.setdefault(table, {})
        for name, left, kind, right in re.findall(r"(\w+)\s*:\s*(\[?)([\w.]+)(\]?)", body):
            kind = kind.rpartition(".")[2]
            if kind in unions:
                fields[f"{name}_type"] = "1"
            fields[name] = f"{left}{unions.get(kind, sizes.get(kind, kind))}{right}"
    named = {member: table for each in members.values() for member, table in each if table}
    return entries | {member: entries[table] for member, table in named.items()}
