"""The bill of materials of a wheel: what it names is what the build takes."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from get_xnnpack import debian, sbom, series

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"


def document(pinned: bool = True) -> dict[str, Any]:
    """Return the document of a wheel."""
    return json.loads(sbom.document("executorch_c", "1.2", "MIT", sbom.components(pinned)))


def test_each_package_has_its_origin_hashes_and_licence() -> None:
    parts = {part["name"]: part for part in document()["components"]}
    assert list(parts) == [package.name for package in debian.PACKAGES]
    for package in debian.PACKAGES:
        part = parts[package.name]
        assert part["version"] == package.version
        hashes = {row["content"] for row in part["hashes"]}
        assert hashes == set(package.sha256.values())
        assert part["licenses"][0]["license"]["id"] in ("BSD-2-Clause", "BSD-3-Clause", "MIT")
        assert part["pedigree"]["ancestors"][0]["version"] in package.version


def test_each_patch_and_source_is_named_with_its_hash() -> None:
    parts = document()["components"]
    patches = [row for part in parts for row in part["pedigree"].get("patches", [])]
    assert len(patches) == len(series.patches()) > 20
    for row in patches:
        text = (ROOT / row["diff"]["url"]).read_text()
        (reason,) = row["resolves"]
        assert reason["name"]
        assert reason["name"] in text.replace("\n ", " ")
        assert reason["id"] in row["diff"]["url"]
    named = {row["name"]: row["value"] for part in parts for row in part.get("properties", [])}
    assert len(named) == len(series.patches()) + len(series.sources())
    for name, value in named.items():
        data = (ROOT / name.removeprefix("sha256:")).read_bytes()
        assert hashlib.sha256(data).hexdigest() == value


def test_a_series_without_speed_has_fewer_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXECUTORCH_C_XNNPACK", "corrections")
    patches = document()["components"][0]["pedigree"]["patches"]
    assert {row["diff"]["url"].split("/")[-2] for row in patches} == {"corrections"}


def test_an_xnnpack_of_the_machine_is_no_pinned_one() -> None:
    (part,) = document(pinned=False)["components"]
    assert "version" not in part
    assert "hashes" not in part


def test_the_document_depends_on_the_tree_and_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert document() == document()
    assert "timestamp" not in document()["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    assert document()["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_the_installed_package_has_one() -> None:
    files = distribution("executorch_c").files or []
    if not any(path.name == "WHEEL" for path in files):
        pytest.skip("an in-place build has no wheel")
    (file,) = [path for path in files if path.match("sboms/executorch_c.cdx.json")]
    bom = json.loads(file.read_text())
    assert bom["metadata"]["component"]["name"] == "executorch_c"
    main, *others = bom["dependencies"]
    assert main["dependsOn"] == [part["bom-ref"] for part in bom["components"]]
    assert not others
