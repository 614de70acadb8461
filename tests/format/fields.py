"""Fields of the formats that are not simply used: checked ones, and ignored ones with the reason.

A row of a `.def` file may end with `/* checked: <what is accepted> */` or `/* ignored: <why> */`;
all other fields are used (`/* used: only <when> */`: in no sample of the test). The first row of a
table, or a row of Core ML's, may end with `/* refused: <why> */`. `python -m tests.format.fields`
writes the table of them into csrc/format/README.md.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "csrc/format/README.md"
FILES = {
    ".pte": "csrc/format/program.def",
    ".ptd": "csrc/format/flat_tensor.def",
    ".bpte": "csrc/format/bundled.def",
    "XNNPACK": "backends/xnnpack/payload/tables.def",
    "Vulkan": "backends/interpreted/vulkan/schema.def",
    "native": "backends/interpreted/native/schema.def",
    "TOSA": "backends/interpreted/tosa/schema.def",
    "VGF": "backends/interpreted/tosa/vgf.def",
    "MLX": "backends/interpreted/mlx/schema.def",
    "Core ML": "backends/interpreted/coreml/schema.def",
    "ETDump": "csrc/format/etdump.def",
}
"""Formats, and the tables of their schemas."""
BEGIN, END = "<!-- fields: python -m tests.format.fields -->\n", "<!-- end of fields -->"
ROW = re.compile(
    r"^EC(?:_FB_FIELD|X_FIELD_\w+|M_[A-Z]+)\((\w+), \d+, (\w+)[^)]*\)(?: /\* (\w+): (.*?) \*/)?$",
    re.M,
)
TABLE = re.compile(r"^EC_FB_TABLE_BEGIN\((\w+)\) /\* refused: (.*?) \*/$", re.M)


@dataclass(frozen=True)
class Field:
    table: str
    name: str
    status: str
    reason: str


def rows(form: str) -> list[Field]:
    """Return the rows of a format's table."""
    text = (ROOT / FILES[form]).read_text()
    return [Field(m[1], m[2], m[3] or "used", m[4] or "") for m in ROW.finditer(text)]


def fields(form: str) -> list[Field]:
    """Return all fields of a format, but those of refused tables."""
    return [row for row in rows(form) if row.table not in refused(form)]


def refused(form: str) -> dict[str, str]:
    """Return the tables that are refused, with the reason."""
    return dict(TABLE.findall((ROOT / FILES[form]).read_text()))


def lines() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| format | field | |"
    yield "|---|---|---|"
    for form in FILES:
        yield from (
            f"| {form} | `{name}` | refused: {why} |" for name, why in refused(form).items()
        )
        others = [field for field in fields(form) if field.status != "used"]
        yield from (f"| {form} | `{f.table}.{f.name}` | {f.status}: {f.reason} |" for f in others)


def table() -> str:
    """Return the table with its marks."""
    return BEGIN + "\n" + "\n".join(lines()) + "\n\n" + END


def main() -> None:
    text = README.read_text()
    README.write_text(text[: text.index(BEGIN)] + table() + text[text.index(END) + len(END) :])


if __name__ == "__main__":
    main()
