"""Tables of the results of `compare`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import paragraph
from benchmarks.rivals import RIVALS

Record = dict[str, Any]
CASE = ("network", "size", "batch", "scheme", "threads")


def cases(records: Sequence[Record]) -> dict[tuple[Any, ...], dict[str, Record]]:
    """Return the rivals' records of each case."""
    cases: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in records:
        cases.setdefault(tuple(record[key] for key in CASE), {})[record["rival"]] = record
    return cases


def ratios(records: Sequence[Record], rival: str, ours: str) -> dict[str, float]:
    """Return rival / ours for each network that both can run: above 1, ours is faster."""
    return {
        f"{case[0]} {case[3]}": by[rival]["best"] / by[ours]["best"]
        for case, by in cases(records).items()
        if "best" in by.get(rival, {}) and "best" in by.get(ours, {})
    }


def mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def pairs(records: Sequence[Record]) -> list[str]:
    """Return rows: geometric mean, number of networks and least ratio for each pair."""
    lines = ["| rival / ours | networks | geometric mean | least | |", "|---|--:|--:|--:|---|"]
    for ours in (name for name, rival in RIVALS.items() if rival.is_ours):
        for name, rival in RIVALS.items():
            values = ratios(records, name, ours) if not rival.is_ours else {}
            if values:
                worst = min(values, key=lambda title: values[title])
                lines.append(
                    f"| {rival.title} / {RIVALS[ours].title} | {len(values)} "
                    f"| {mean(list(values.values())):.2f} | {values[worst]:.2f} | {worst} |"
                )
    return lines


def milliseconds(record: Record) -> str:
    if "best" not in record:
        return record.get("why", "") if record.get("why", "").startswith("more") else "-"
    return f"{1e3 * record['best']:.3g}"


def latencies(records: Sequence[Record]) -> list[str]:
    """Return a row for each network, in milliseconds."""
    names = [name for name in RIVALS if any(r["rival"] == name and "best" in r for r in records)]
    lines = ["| ms | " + " | ".join(RIVALS[name].title for name in names) + " |"]
    lines.append("|---|" + "--:|" * len(names))
    for case, by in cases(records).items():
        size = f"{case[1]}" + (f" x{case[2]}" if case[2] > 1 else "")
        cells = [milliseconds(by.get(name, {})) for name in names]
        lines.append(f"| {case[0]} {size} | " + " | ".join(cells) + " |")
    return lines


def scaling(records: Sequence[Record]) -> list[str]:
    """Return rows: time with one thread / time with two."""
    by_case = cases(records)
    lines = ["| | networks | 1 thread / 2 threads |", "|---|--:|--:|"]
    for name, rival in RIVALS.items():
        gains = [
            by[name]["best"] / by_case[(*case[:4], 2)][name]["best"]
            for case, by in by_case.items()
            if case[4] == 1
            and "best" in by.get(name, {})
            and "best" in by_case.get((*case[:4], 2), {}).get(name, {})
        ]
        if gains:
            lines.append(f"| {rival.title} | {len(gains)} | {mean(gains):.2f} |")
    return lines


def growth(records: Sequence[Record], key: str) -> list[str]:
    """Return rows: how the time grows from the smallest to the largest size or batch."""
    place = CASE.index(key)
    groups: dict[tuple[Any, ...], dict[Any, dict[str, Record]]] = {}
    for case, by in cases(records).items():
        groups.setdefault((*case[:place], *case[place + 1 :]), {})[case[place]] = by
    names = [name for name in RIVALS if any(r["rival"] == name and "best" in r for r in records)]
    lines = []
    for group, by in groups.items():
        if len(by) < 2:
            continue
        low, high = min(by), max(by)
        cells = [
            f"{by[high][name]['best'] / by[low][name]['best']:.2f}"
            if "best" in by[low].get(name, {}) and "best" in by[high].get(name, {})
            else "-"
            for name in names
        ]
        title = f"{group[0]} {group[2]}, {group[3]} threads, {key} {low} to {high}"
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    if not lines:
        return []
    head = ["| time(large) / time(small) | " + " | ".join(RIVALS[n].title for n in names) + " |"]
    return [*head, "|---|" + "--:|" * len(names), *lines]


def reasons(records: Sequence[Record]) -> list[str]:
    """Return lines that say why cases are missing, those for all networks once."""
    reasons: dict[str, list[str]] = {}
    for record in records:
        if "why" in record and not record["why"].startswith(("not measured", "more")):
            text = f"{RIVALS[record['rival']].title}: {record['why']}"
            names = reasons.setdefault(text, [])
            if record["network"] not in names:
                names.append(record["network"])
    return [
        f"- {text}" + (f" ({', '.join(names)})" if len(names) < 20 else "")
        for text, names in reasons.items()
    ]


def summary(records: Sequence[Record]) -> str:
    return "\n".join(pairs(records))


def select(records: Sequence[Record], **values: Any) -> list[Record]:
    return [r for r in records if all(r[key] == value for key, value in values.items())]


def text(results: Record) -> str:
    """Return the body of a page of results."""
    records = results["records"]
    machine = results["machine"].partition(" Medians;")[0]
    lines = [paragraph(f"{machine} Best calls."), ""]
    batch = select(records, batch=1)
    sizes = {
        name: max(r["size"] for r in select(batch, network=name))
        for name in dict.fromkeys(r["network"] for r in batch)
    }
    usual = [r for r in batch if r["size"] == sizes[r["network"]]]
    for scheme in ("fp32", "int8"):
        for threads in (2, 1):
            part = select(usual, scheme=scheme, threads=threads)
            if part:
                lines += [f"## {scheme}, {threads} thread{'s'[: threads - 1]}", "", *pairs(part)]
                lines += ["", *latencies(part), ""] if threads == 2 else [""]
    small = select([r for r in batch if r["size"] < sizes[r["network"]]], threads=2)
    if small:
        lines += ["## Small inputs, 2 threads", "", *pairs(small), ""]
    for title, rows in (
        ("Scaling", scaling(usual)),
        ("Cost of size", growth(select(batch, threads=2), "size")),
        ("Cost of batches", growth(select(records, threads=2), "batch")),
        ("Not measured", reasons(usual)),
    ):
        if len(rows) > (2 if title == "Scaling" else 0):
            lines += [f"## {title}", "", *rows, ""]
    return "\n".join(lines).rstrip()


def write(path: Path) -> None:
    """Write the page of a file of results beside it."""
    head = "# Networks on several runtimes"
    command = f"`python -m benchmarks compare --report` makes this page from `{path.name}`."
    page = "\n\n".join([head, command, text(json.loads(path.read_text()))])
    path.with_suffix(".md").write_text(page + "\n")
