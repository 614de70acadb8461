"""Describe what a wheel carries of others as a software bill of materials.

The format is CycloneDX 1.6 in JSON (https://cyclonedx.org/docs/1.6/json); PEP 770 names the folder
in a wheel, `*.dist-info/sboms`. The document depends on the tree, the options of the build and
SOURCE_DATE_EPOCH alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from get_xnnpack import series
from get_xnnpack.debian import PACKAGES, RELEASE, Package

Json = dict[str, Any]
OWNERS = {"corrections": "xnnpack", "speed": "xnnpack", "workers.c": "pthreadpool"}
"""The package that a file or a folder of third_party/ changes."""


def document(name: str, version: str, license: str, parts: list[Json]) -> str:
    """Return the document of a wheel that carries `parts`."""
    main = {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "licenses": [{"expression": license}],
        "purl": f"pkg:pypi/{name.replace('_', '-')}@{version}",
    }
    metadata: Json = {"component": main}
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        time = datetime.fromtimestamp(int(epoch), timezone.utc)
        metadata["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    bom: Json = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": parts,
        "dependencies": [{"ref": name, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom)).urn
    return json.dumps(bom, indent=2) + "\n"


def components(pinned: bool) -> list[Json]:
    """Return XNNPACK and its dependencies; of an XNNPACK of this machine the name alone."""
    if pinned:
        return [component(package) for package in PACKAGES]
    text = "an XNNPACK that was on the build machine, with pthreadpool and cpuinfo"
    return [{"type": "library", "bom-ref": "xnnpack", "name": "xnnpack", "description": text}]


def component(package: Package) -> Json:
    """Return a package of Debian: its origin, the hashes of its files, and our changes."""
    commit = package.version.rpartition(".")[2].partition("-")[0]
    kind = f"?arch=source&distro={RELEASE}" if package.is_source else f"?distro={RELEASE}"
    ancestor = {
        "type": "library",
        "name": package.upstream.partition("/")[2],
        "version": commit,
        "purl": f"pkg:github/{package.upstream.lower()}@{commit}",
    }
    pedigree: Json = {"ancestors": [ancestor]}
    patches = [path for path in series.patches() if owner(path) == package.name]
    if patches:
        pedigree["patches"] = [patch(path) for path in patches]
    files = [*patches, *(path for path in series.sources() if owner(path) == package.name)]
    out: Json = {
        "type": "library",
        "bom-ref": package.name,
        "name": package.name,
        "version": package.version,
        "licenses": [{"license": {"id": package.license}}],
        "purl": f"pkg:deb/debian/{package.name}@{package.version}{kind}",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.sha256.values()],
        "externalReferences": [{"type": "vcs", "url": f"https://github.com/{package.upstream}"}],
        "pedigree": pedigree,
    }
    if files:
        hashes = [{"name": f"sha256:{place(path)}", "value": sha256(path)} for path in files]
        out["properties"] = hashes
    return out


def patch(path: Path) -> Json:
    """Return a patch: its path in the source distribution, and its subject."""
    text = path.read_text(encoding="utf-8").replace("\n ", " ")  # a long subject goes on
    name = text.partition("\nSubject: [PATCH] ")[2].partition("\n")[0]
    kind = "defect" if path.parent.name == "corrections" else "enhancement"
    return {
        "type": "unofficial",
        "diff": {"url": place(path)},
        "resolves": [{"type": kind, "id": f"{path.parent.name}/{path.stem[:4]}", "name": name}],
    }


def owner(path: Path) -> str:
    """Return the name of the package that a file of third_party/ changes."""
    relative = path.relative_to(series.THIRD_PARTY).parts
    return OWNERS["speed" if relative[0] == "kernels" else relative[0]]


def place(path: Path) -> str:
    """Return the path of a file in the source distribution."""
    return path.relative_to(series.THIRD_PARTY.parents[2]).as_posix()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
