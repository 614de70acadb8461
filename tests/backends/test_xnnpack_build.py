"""Discovery and build of XNNPACK: apt sources, hashes, environment variables, messages; no network.

The installation of the package under test covers the real build.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sysconfig
import tarfile
from pathlib import Path

import get_xnnpack
import pytest
from get_xnnpack import XnnpackError, debian, library, recipe, series
from get_xnnpack.log import Log
from setuptools.command.egg_info import FileList

DEB822 = """\
# comment
Types: deb
URIs: https://packages.example.org/repos/code
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/example.gpg

Types: deb
URIs: http://security.example.org/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb deb-src
# a comment between fields
URIs: http://archive.example.org/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
"""


ONE_LINE = """
# deb http://commented.example.org/debian bookworm main
deb-src http://source.example.org/debian bookworm main
deb [arch=amd64] https://download.example.org/linux/debian bookworm stable
deb [arch=amd64 signed-by=/keys/own.gpg] http://archive.example.org/debian bookworm main # near
"""
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
BLOCK = "\n".join(["", *DEB822.splitlines()[-4:]])
POOL = f"deb [signed-by={KEYRING}] https://pool.example.org/remote trixie main\n"
MIRRORS: dict[str, tuple[str, str, debian.Mirror]] = {
    "enabled Debian sources": (
        *("debian.sources", DEB822),
        debian.Mirror("http://archive.example.org/debian", BLOCK),
    ),
    "one line": (
        *("sources.list", ONE_LINE),
        debian.Mirror("http://archive.example.org/debian", "/keys/own.gpg"),
    ),
    "keyrings of apt": (
        *("old.list", "deb http://ftp.example.org/debian stable main\n"),
        debian.Mirror("http://ftp.example.org/debian"),
    ),
    "known by its keyring": (
        "x.list",
        POOL,
        debian.Mirror("https://pool.example.org/remote", KEYRING),
    ),
    "the public one": (
        *("ubuntu.list", "deb http://archive.example.com/ubuntu noble main\n"),
        debian.Mirror(debian.PUBLIC, trusted=True),
    ),
    "another kind of file": (
        *("note.txt", "deb http://x.example/debian sid main"),
        debian.Mirror(debian.PUBLIC, trusted=True),
    ),
}
"""The file of an apt folder, its text, and the mirror that they mean."""

# ---- sources of apt --------------------------------------------------------------------------


@pytest.mark.parametrize("name", MIRRORS)
def test_the_mirror_of_apt_and_its_stanza(tmp_path: Path, name: str) -> None:
    """The mirror's stanza reads back as it was written; a folder in place of a file is skipped."""
    file, text, expected = MIRRORS[name]
    folder = tmp_path if file == "sources.list" else tmp_path / "sources.list.d"
    (tmp_path / "sources.list.d").mkdir()
    if folder != tmp_path:
        (tmp_path / "sources.list").mkdir()
    (folder / file).write_text(text)
    mirror = debian.mirror_of(debian.configured(tmp_path))
    assert mirror == expected
    (entry,) = debian.deb822(debian.stanza(mirror))
    fields = {"uris": expected.uri, "suites": debian.RELEASE, "types": "deb deb-src"}
    fields |= {"signed-by": expected.signed_by} if expected.signed_by else {}
    assert entry == {**entry, **fields}
    assert ("signed-by" in entry, "trusted" in entry) == (bool(mirror.signed_by), mirror.trusted)


def test_the_public_mirror_has_pinned_hashes(tmp_path: Path) -> None:
    stanza = debian.stanza(debian.Mirror(debian.PUBLIC, trusted=True))
    (tmp_path / "debian.sources").write_text(stanza)
    debian.check_pinned("amd64", tmp_path)
    with pytest.raises(XnnpackError, match="no known hash for riscv64"):
        debian.check_pinned("riscv64", tmp_path)


# ---- what arrives ----------------------------------------------------------------------------


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "xnnpack.orig.tar.xz"
    file.write_bytes(b"not XNNPACK")
    digest = "f6ec0c3bfbe9b2e10b5a22cd6ab0d2ba5d9de5c8ad6a1e4a3e19bbbcd5a4ef0e"
    with pytest.raises(XnnpackError) as error:
        debian.check_hash(file, digest)
    assert f"expected {digest}" in str(error.value)
    assert "xnnpack.orig.tar.xz has SHA-256" in str(error.value)


def test_every_package_has_hashes() -> None:
    for package in debian.PACKAGES:
        assert package.is_source or {"amd64", "arm64"} <= set(package.sha256)
        assert all(len(digest) == 64 for digest in package.sha256.values())


@pytest.mark.parametrize("top", ["", "xnnpack-1/"])
def test_tarballs_with_and_without_a_top_folder(tmp_path: Path, top: str) -> None:
    file = tmp_path / "x.tar.xz"
    with tarfile.open(file, "w:xz") as tar:
        for name in ("CMakeLists.txt", "LICENSE"):
            tar.addfile(tarfile.TarInfo(top + name), io.BytesIO())
    folder = debian.unpack(file, tmp_path / "out", Log())
    assert sorted(path.name for path in folder.iterdir()) == ["CMakeLists.txt", "LICENSE"]


def test_without_apt_the_message_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XNNPACK_ROOT", raising=False)
    monkeypatch.setenv("EXECUTORCH_C_CACHE", str(tmp_path))
    monkeypatch.setattr(get_xnnpack, "SYSTEM", ())
    monkeypatch.setattr(recipe, "tool", lambda name: name)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(XnnpackError) as error:
        get_xnnpack.find()
    says = ("apt-get", "is missing on this machine", "XNNPACK_ROOT=", "EXECUTORCH_C_XNNPACK=0")
    for words in says:
        assert words in str(error.value)
    left = [path.name for path in tmp_path.iterdir()]
    assert left == [recipe.cached().name + ".log"], "no half-built prefix stays behind"


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(XnnpackError, match="needs no-such-tool, which is not on PATH"):
        recipe.tool("no-such-tool")


# ---- prefixes --------------------------------------------------------------------------------


def test_a_root_that_is_set_must_be_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XNNPACK_ROOT", str(tmp_path))
    with pytest.raises(XnnpackError, match="has no include/xnnpack.h"):
        get_xnnpack.find()
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "xnnpack.h").touch()
    with pytest.raises(XnnpackError, match=r"has no libXNNPACK\.a or libXNNPACK\.so"):
        get_xnnpack.find()


def prefix(root: Path, *names: str) -> Path:
    """Return a prefix with an old header and empty libraries."""
    for folder in ("include", "lib"):
        (root / folder).mkdir(parents=True)
    (root / "include" / "xnnpack.h").write_text("enum xnn_status { xnn_status_success };\n")
    (root / "include" / "pthreadpool.h").write_text("typedef struct pthreadpool *pthreadpool_t;\n")
    for name in names:
        (root / "lib" / name).write_bytes(b"!<arch>\n")
    return root


ALL = ("libXNNPACK.a", "libpthreadpool.a", "libcpuinfo.a")


@pytest.mark.skipif(not sysconfig.get_config_var("CC"), reason="no compiler is known")
def test_an_old_system_library_is_passed_over_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = prefix(tmp_path / "usr", *ALL)
    monkeypatch.setattr(get_xnnpack, "SYSTEM", (tmp_path / "nothing", root))
    assert get_xnnpack.installed(Log()) is None
    said = capfd.readouterr().err
    assert f"XNNPACK in {root} is not used" in said
    assert "error" in said


def test_static_libraries_come_first_and_the_order_is_that_of_the_linker(tmp_path: Path) -> None:
    root = prefix(tmp_path, *ALL, "libmicrokernels-prod.a", "libXNNPACK.so")
    paths = library.libraries(root, (".a", ".so"))
    order = "libXNNPACK.a libmicrokernels-prod.a libpthreadpool.a libcpuinfo.a"
    assert [path.name for path in paths] == order.split()
    assert library.libraries(root, (".so", ".a"))[0].name == "libXNNPACK.so"
    linked = library.Library(root, paths)
    assert linked.shared == {}
    assert "-Wl,--exclude-libs,ALL" in linked.link_args
    assert not any("rpath" in word for word in linked.link_args)
    assert str(root / "lib" / "libpthreadpool.a") in linked.pthreadpool_args
    assert not any("XNNPACK" in word for word in linked.pthreadpool_args)


def test_what_is_shared_is_looked_for_beside_the_extension(tmp_path: Path) -> None:
    root = prefix(tmp_path, "libXNNPACK.a", "libpthreadpool.a", "libcpuinfo.so")
    linked = library.Library(root, library.libraries(root, (".a", ".so")))
    assert "-Wl,-rpath,$ORIGIN" in linked.link_args
    assert not any("rpath" in word for word in linked.pthreadpool_args)


def test_the_cache_folder_is_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXECUTORCH_C_CACHE", str(tmp_path / "own"))
    assert recipe.cached().parent == tmp_path / "own"
    monkeypatch.delenv("EXECUTORCH_C_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert recipe.cached().parent == tmp_path / "executorch_c"
    first = recipe.cached()
    assert first.name.startswith("xnnpack-20241108-")
    monkeypatch.setenv("CFLAGS", "-O1")
    assert recipe.cached() != first, "another recipe is another prefix"


def test_the_second_of_two_builds_leaves_the_first(tmp_path: Path) -> None:
    one, two, target = (tmp_path / name for name in ("one", "two", "prefix"))
    for path in (one, two):
        path.mkdir()
        (path / "builder").write_text(path.name)
    recipe.settle(one, target)
    recipe.settle(two, target)
    assert (target / "builder").read_text() == "one"


def test_a_read_only_cache_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(recipe, "tool", lambda name: name)
    with pytest.raises(XnnpackError, match="EXECUTORCH_C_CACHE=<folder> names another one"):
        recipe.build(tmp_path / "file" / "prefix", Log())


# ---- commands --------------------------------------------------------------------------------


def test_a_failed_command_is_quoted_and_the_log_named(tmp_path: Path) -> None:
    log = Log(tmp_path / "build.log")
    shell = shutil.which("sh") or "/bin/sh"
    with pytest.raises(XnnpackError) as error:
        log.run(shell, "-c", "for i in $(seq 30); do echo line $i; done; exit 3", cwd=tmp_path)
    assert "| line 30" in str(error.value)
    assert "line 3\n" not in str(error.value)
    assert str(log.path) in str(error.value)
    assert "line 3\n" in (tmp_path / "build.log").read_text()


def test_progress_is_said_at_each_tenth(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shell = shutil.which("sh") or "/bin/sh"
    script = 'for i in $(seq 40); do echo "[$i/40] Building"; done'
    Log().run(shell, "-c", script, cwd=tmp_path)
    assert len(capfd.readouterr().err.splitlines()) == 10


def test_no_such_command(tmp_path: Path) -> None:
    with pytest.raises(XnnpackError, match="cannot be run"):
        Log().run(tmp_path / "nothing", cwd=tmp_path, env=dict(os.environ))


# ---- patches ---------------------------------------------------------------------------------

SOURCE = "".join(f"line {i}\n" for i in range(1, 21))
PATCH = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Two changes and a new file

diff --git a/src/a.c b/src/a.c
index 1dda567..844fc87 100644
--- a/src/a.c
+++ b/src/a.c
@@ -2,3 +2,4 @@ a function
 line 2
-line 3
+line three
+--- a line that looks like a header
 line 4
@@ -18,3 +19,2 @@
 line 18
-line 19
 line 20
diff --git a/b.c b/b.c
new file mode 100644
--- /dev/null
+++ b/b.c
@@ -0,0 +1,2 @@
+one
+two
"""


def patched(tmp_path: Path, source: str, patch: str = PATCH) -> Path:
    """Return a folder with a source that was patched."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.c").write_text(source)
    (tmp_path / "0001-x.patch").write_text(patch)
    series.apply(tmp_path / "0001-x.patch", tmp_path)
    return tmp_path


def test_a_patch_changes_the_lines_that_it_names(tmp_path: Path) -> None:
    folder = patched(tmp_path, SOURCE)
    lines = SOURCE.replace("line 3\n", "line three\n--- a line that looks like a header\n")
    assert (folder / "src" / "a.c").read_text() == lines.replace("line 19\n", "")
    assert (folder / "b.c").read_text() == "one\ntwo\n"


OTHER_SOURCES = {
    "context": SOURCE.replace("line 4", "line four"),
    "offset": f"\n{SOURCE}",
    "offset of the second hunk": SOURCE.replace("line 10\n", ""),
    "no file": "",
}


@pytest.mark.parametrize("name", OTHER_SOURCES)
def test_a_patch_of_another_source_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(XnnpackError, match=r"0001-x\.patch does not apply to src/a\.c at line"):
        patched(tmp_path, OTHER_SOURCES[name])


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "b.c").write_text("own\n")
    with pytest.raises(XnnpackError, match=r"does not apply to b\.c"):
        patched(tmp_path, SOURCE)


def test_each_patch_says_how_it_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXECUTORCH_C_XNNPACK", raising=False)
    for path in series.patches():
        message = path.read_text().partition("\ndiff --git ")[0]
        named = re.findall(r"\btest_xnnpack_\w+\.py", message.rpartition("\nTest: ")[2])
        assert named, path.name
        assert all((Path(__file__).parent / name).exists() for name in named), path.name
        assert list(series.hunks(path.read_text().splitlines(keepends=True))), path.name


def test_the_source_distribution_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[2]
    monkeypatch.chdir(root)
    files = FileList()
    for line in (root / "MANIFEST.in").read_text().splitlines():
        files.process_template_line(line)
    needed = [*series.patches(), *series.sources(), series.THIRD_PARTY / "pin.json"]
    assert {str(path.resolve().relative_to(root)) for path in needed} <= set(files.files)


def test_corrections_are_another_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXECUTORCH_C_XNNPACK", raising=False)
    whole, patches = recipe.cached(), series.patches()
    monkeypatch.setenv("EXECUTORCH_C_XNNPACK", "corrections")
    assert recipe.cached() != whole
    assert series.patches() == [p for p in patches if p.parent.name == "corrections"] != patches
    assert not any("speed" in path.parts for path in series.sources())
