"""Fetch the sources of XNNPACK from a Debian mirror, without root and the system's apt state.

apt-get runs with a separate configuration in a temporary folder: the machine's Debian mirror, for
the release with the packages. The machine's `Acquire` options (proxies and the like) are kept, its
hooks and preferences are not. Each file must have the hash in
`third_party/pin.json`, so the public mirror is safe if no Debian mirror is configured (Ubuntu).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from get_xnnpack.log import Log, XnnpackError
from get_xnnpack.series import THIRD_PARTY

RELEASE = "trixie"
SUITES = {
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
}
PUBLIC = "http://deb.debian.org/debian"


@dataclass(frozen=True)
class Package:
    """A source package's tarball, or a binary package (for architectures with a hash)."""

    name: str
    version: str
    sha256: dict[str, str]
    license: str = field(repr=False)  # not part of the recipe's digest, as the next
    upstream: str = field(repr=False)
    """Owner and name of the repository on GitHub."""

    @property
    def is_source(self) -> bool:
        return "source" in self.sha256


PACKAGES = tuple(Package(**row) for row in json.loads((THIRD_PARTY / "pin.json").read_text()))


# ---- the configured mirror -------------------------------------------------------------------


@dataclass(frozen=True)
class Mirror:
    """A Debian archive; `signed_by` is apt's option, empty for apt's own keyrings."""

    uri: str
    signed_by: str = ""
    trusted: bool = False


def stanza(mirror: Mirror) -> str:
    """Return the mirror as a .sources file, for the release with the packages."""
    lines = ["Types: deb deb-src", f"URIs: {mirror.uri}", f"Suites: {RELEASE}", "Components: main"]
    if mirror.trusted:
        lines.append("Trusted: yes")
    elif mirror.signed_by:
        lines.append(f"Signed-By: {mirror.signed_by}")
    return "\n".join(lines) + "\n"


def one_line(text: str) -> Iterator[dict[str, str]]:
    """Yield the entries of a sources.list, with the field names of a .sources file."""
    for line in text.splitlines():
        rest = line.partition("#")[0].strip()
        kind, _, rest = rest.partition(" ")
        options = ""
        if rest.lstrip().startswith("["):
            options, _, rest = rest.lstrip()[1:].partition("]")
        words = rest.split()
        if kind == "deb" and len(words) >= 3:
            named = dict(word.partition("=")[::2] for word in options.split())
            yield {
                "types": kind,
                "uris": words[0],
                "suites": words[1],
                "components": " ".join(words[2:]),
                "signed-by": named.get("signed-by", ""),
            }


def deb822(text: str) -> Iterator[dict[str, str]]:
    """Yield the enabled stanzas of a .sources file; values keep their continuation lines."""
    entry: dict[str, str] = {}
    field = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if entry and entry.get("enabled", "yes").lower() not in ("no", "false", "0"):
                yield entry
            entry, field = {}, ""
        elif line[0] in " \t" and field:
            entry[field] += "\n" + line
        else:
            name, _, value = line.partition(":")
            field = name.strip().lower()
            entry[field] = value.strip()


def configured(etc: Path) -> Iterator[dict[str, str]]:
    """Yield all sources of an apt configuration folder."""
    parts = sorted((etc / "sources.list.d").glob("*"))
    for path in [etc / "sources.list", *parts]:
        read = {".list": one_line, ".sources": deb822}.get(path.suffix)
        if read:
            try:
                yield from read(path.read_text(errors="replace"))
            except OSError:
                continue


def mirror_of(entries: Iterator[dict[str, str]]) -> Mirror:
    """Return the entry for Debian itself, not a third party with Debian's suite names."""
    for entry in entries:
        uris = [uri.rstrip("/") for uri in entry.get("uris", "").split()]
        signed_by = entry.get("signed-by", "")
        if "deb" not in entry.get("types", "").split():
            continue
        if "main" not in entry.get("components", "").split():
            continue
        if not SUITES & set(entry.get("suites", "").split()):
            continue
        for uri in uris:
            if uri.endswith("/debian") or "debian-archive" in signed_by:
                return Mirror(uri, signed_by)
    return Mirror(PUBLIC, trusted=True)


# ---- the files -------------------------------------------------------------------------------


def fetch(into: Path, log: Log) -> dict[str, Path]:
    """Download, check and unpack all packages; return their folders by name."""
    for tool in ("apt-get", "apt-config", "dpkg-deb"):
        if not shutil.which(tool):
            raise XnnpackError(
                f"no XNNPACK is installed, and fetching its source from Debian needs {tool}, "
                "which is missing on this machine"
            )
    apt = into / "apt"
    env = configure(apt)
    architecture = log.run("dpkg", "--print-architecture", cwd=into).strip()
    check_pinned(architecture, apt)
    downloads = into / "downloads"
    downloads.mkdir()
    log.say(f"Fetching XNNPACK's source from Debian {RELEASE} ...")
    log.run("apt-get", "-q", "update", cwd=into, env=env)
    out = {}
    for package in PACKAGES:
        before = set(downloads.iterdir())
        wanted = f"{package.name}={package.version}"
        verb = ["source", "--tar-only"] if package.is_source else ["download"]
        log.run("apt-get", "-q", *verb, wanted, cwd=downloads, env=env)
        files = set(downloads.iterdir()) - before
        if len(files) != 1:
            raise log.failure(
                f"apt-get {verb[0]} {wanted} fetched {len(files)} files, expected 1", ""
            )
        file = files.pop()
        check_hash(file, package.sha256.get("source") or package.sha256.get(architecture))
        out[package.name] = unpack(file, into / package.name, log)
    return out


def configure(apt: Path) -> dict[str, str]:
    """Return an environment in which apt-get uses a separate folder."""
    for name in ("lists/partial", "archives/partial", "empty"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    sources = apt / "debian.sources"
    sources.write_text(stanza(mirror_of(configured(Path("/etc/apt")))))
    # The log is bypassed: a proxy's address may contain a password.
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
    config = [line for line in dump.splitlines() if line.startswith("Acquire::")]
    options = {
        "Dir::Etc::Main": "/dev/null",
        "Dir::Etc::Parts": apt / "empty",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": apt / "empty",
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": apt / "empty",
        "Dir::State": apt,
        "Dir::State::Lists": apt / "lists",
        "Dir::State::Status": apt / "status",
        "Dir::Cache": apt,
        "Dir::Cache::Archives": apt / "archives",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "30",
        "Acquire::https::Timeout": "30",
        "APT::Sandbox::User": "root",  # as root, apt would switch to a user without access
        "APT::Update::Error-Mode": "any",
    }
    config += [f'{name} "{value}";' for name, value in options.items()]
    (apt / "apt.conf").write_text("\n".join(config) + "\n")
    return {**os.environ, "APT_CONFIG": str(apt / "apt.conf"), "LC_ALL": "C"}


def check_pinned(architecture: str, apt: Path) -> None:
    """Refuse an unsigned mirror unless every file has a hash here."""
    unsigned = "Trusted: yes" in (apt / "debian.sources").read_text()
    if unsigned and not all({"source", architecture} & set(p.sha256) for p in PACKAGES):
        raise XnnpackError(
            f"no XNNPACK is installed, no Debian mirror is configured, and the packages of the "
            f"public one have no known hash for {architecture}"
        )


def check_hash(file: Path, expected: str | None) -> None:
    """Refuse a file with a wrong hash (architectures without one: apt has checked)."""
    actual = hashlib.sha256(file.read_bytes()).hexdigest()
    if expected and actual != expected:
        raise XnnpackError(f"{file.name} has SHA-256 {actual}, expected {expected}")


def unpack(file: Path, into: Path, log: Log) -> Path:
    """Unpack a .deb or a tarball; return the folder with the files."""
    into.mkdir()
    if file.suffix == ".deb":
        log.run("dpkg-deb", "-x", file, into, cwd=into)
        return into
    with tarfile.open(file) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into)
    inner = list(into.iterdir())
    return inner[0] if len(inner) == 1 else into
