"""Try what build.py made as its users get it: ``python packaging/check_packages.py DIST``.

The self-contained forms run in a root that holds a shell, glibc, zlib and nothing else: no Python, no network, no
writable home. Then all forms paint their first screen on this machine, as a plain virtual environment does. This needs
root or user namespaces, and the environment in which the packages were built.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

import rpmfile

SHELL: Final = ("sh", "uname", "readlink", "getconf")
LIBRARIES: Final = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
                    "libutil.so.1", "libresolv.so.2", "libgcc_s.so.1", "libz.so.1")  # fmt: skip
OBJECT_ID: Final = "656b5e7d0f3c2a1b9d8e7f60"
NOWHERE: Final = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500"
FIRST_TEXT: Final = b"Counters"
RUNS: Final = 5
SECONDS: Final = 60


def fail(reason: str) -> NoReturn:
    """End with a sentence."""
    raise SystemExit(f"packages: {reason}")


def run(argv: Sequence[object], **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program with these variables alone."""
    usual = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/home"}
    return subprocess.run(
        [str(word) for word in argv], env=usual | environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def expect(what: str, done: subprocess.CompletedProcess[str], code: int, *texts: str) -> None:
    """Fail unless a program ended with this code and printed these texts, and no traceback."""
    output = done.stdout + done.stderr
    if done.returncode != code or any(text not in output for text in texts) or "Traceback" in output:
        fail(f"{what} exited with {done.returncode} and printed {output[-2000:]!r}.")


def empty_root(root: Path) -> None:
    """A folder with a shell, glibc and zlib, as a system that can run nothing else."""
    for folder in ("bin", "usr", "lib64", "lib/x86_64-linux-gnu", "etc", "dev", "tmp", "home"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/home:/bin/sh\n")
    (root / "dev/null").touch()
    wanted = {Path(found).resolve() for name in LIBRARIES for found in library_places(name)}
    for program in SHELL:
        place = shutil.which(program) or fail(f"this machine has no {program}.")
        shutil.copy(Path(place).resolve(), root / "bin" / program)
        linked = run(["ldd", place]).stdout
        wanted |= {Path(found).resolve() for found in re.findall(r"(/\S+\.so\S*)", linked)}
    for path in wanted:
        for name in {path.name, *(link.name for link in path.parent.iterdir() if link.resolve() == path)}:
            shutil.copy(path, root / "lib/x86_64-linux-gnu" / name)
    shutil.copy(Path("/lib64/ld-linux-x86-64.so.2").resolve(), root / "lib64/ld-linux-x86-64.so.2")


def library_places(name: str) -> list[str]:
    """Where this machine has a library."""
    return [str(path) for folder in ("/lib64", "/lib/x86_64-linux-gnu") if (path := Path(folder) / name).exists()]


def inside(root: Path, *argv: str) -> list[object]:
    """The command that runs a program in a root, without a network."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["/usr/bin/unshare", *user, "--net", f"--root={root}", "--wd=/", *argv]


def unpack_tar(archive: Path, root: Path) -> str:
    with tarfile.open(archive) as packed:
        packed.extractall(root / "opt", filter="tar")
    (folder,) = (root / "opt").iterdir()
    return f"/opt/{folder.name}/tallyglass"


def unpack_deb(package: Path, root: Path) -> str:
    done = subprocess.run(["dpkg-deb", "-x", package, root], capture_output=True, text=True, check=False)
    expect("dpkg-deb", done, 0)
    return "/usr/bin/tallyglass"


def unpack_rpm(package: Path, root: Path) -> str:
    with rpmfile.open(package) as packed:
        for entry in packed.getmembers():
            target = root / entry.name.lstrip("./")
            data = packed.extractfile(entry).read()
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.issymlink:
                target.symlink_to(data.decode())
            elif not entry.isdir:
                target.write_bytes(data)
                target.chmod(entry.mode & 0o777)
    return "/usr/bin/tallyglass"


def check_contained(package: Path, unpack: Callable[[Path, Path], str], root: Path) -> Path:
    """One self-contained form in an empty root; the program's path on this machine."""
    empty_root(root)
    program = unpack(package, root)
    if found := [path for path in root.rglob("python*") if path.is_file() and os.access(path, os.X_OK)]:
        fail(f"{package.name} contains the interpreter {found[0]}.")
    for extension in ("bson/_cbson", "pymongo/_cmessage"):
        if not list(root.rglob(f"{extension}*.so")):
            fail(f"{package.name} lacks the C extension {extension}.")
    (root / "home").chmod(0o555)
    where = package.name
    expect(f"{where}: --version", run(inside(root, program, "--version")), 0, "tallyglass ")
    expect(f"{where}: oid", run(inside(root, program, "oid", OBJECT_ID)), 0, "2023-12-02")
    expect(f"{where}: oid with LANG=C", run(inside(root, program, "oid", OBJECT_ID), LANG="C"), 0, "2023-12-02")
    refused = run(inside(root, program, "counters", "mongodb+srv://nowhere.example/"))
    if "dnspython" in refused.stdout + refused.stderr:
        fail(f"{where} cannot resolve mongodb+srv.")
    expect(f"{where}: mongodb+srv", refused, refused.returncode or 1)
    seconds = first_paint([str(word) for word in inside(root, program, NOWHERE)], {"HOME": "/home", "TERM": "xterm"})
    print(f"{where}: runs without Python and network, with a read-only home; first screen after {seconds:.1f} s")
    (root / "home").chmod(0o755)
    check_old_glibc(root, program, where)
    return root / program.lstrip("/")


def check_old_glibc(root: Path, program: str, where: str) -> None:
    """An older glibc gets one sentence, not the loader's error."""
    (root / "bin/getconf").write_text("#!/bin/sh\necho glibc 2.12\n")
    expect(f"{where}: old glibc", run(inside(root, program, "--version")), 1, "needs glibc", "2.12", "pyz")
    shutil.copy(Path(shutil.which("getconf") or "").resolve(), root / "bin/getconf")


def check_archive(archive: Path, folder: Path) -> None:
    """tallyglass.pyz with every Python that is here, and its sentences where it cannot run."""
    old = [path for path in pythons() if version_of(path) < (3, 11)]
    new = [path for path in pythons() if version_of(path) >= (3, 11)]
    for python in new:
        home = folder / f"home-{'.'.join(map(str, version_of(python)))}"
        home.mkdir(exist_ok=True)
        expect(f"pyz with {python}", run([python, archive, "oid", OBJECT_ID], HOME=str(home)), 0, "2023-12-02")
    for python in old:
        expect(f"pyz with {python}", run([python, archive, "--version"], HOME=str(folder)), 1, "needs Python 3.11")
    blocked = folder / "file"
    blocked.touch()
    refused = run([new[0], archive, "--version"], HOME=str(folder), SHIV_ROOT=str(blocked / "cache"))
    expect("pyz with a read-only home", refused, 1, "is not writable", "SHIV_ROOT")
    noexec = folder / "noexec"
    noexec.mkdir()
    script = 'mount -t tmpfs -o noexec tmpfs "$1" && SHIV_ROOT=$1 "$2" "$3" oid "$4"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    words = ["/usr/bin/unshare", *user, "--mount", "sh", "-c", script, "sh", noexec, new[0], archive, OBJECT_ID]
    expect("pyz in a folder without execution", run(words), 0, "2023-12-02")
    names = [".".join(map(str, version_of(path))) for path in (*new, *old)]
    print(f"{archive.name}: tried with Python {', '.join(names)}")


def pythons() -> list[str]:
    """The interpreters of this machine, one of each version; this one is the first."""
    found = {version_of(sys.executable): sys.executable}
    for minor in range(6, 20):
        name = f"python3.{minor}"
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        for path in [shutil.which(name), *map(str, pyenv)]:
            if path and (version := version_of(path)) != (0, 0):
                found.setdefault(version, path)
    return list(found.values())


def version_of(python: str) -> tuple[int, int]:
    done = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    major, minor = map(int, done.stdout.split() or (0, 0))
    return major, minor


def first_paint(argv: Sequence[str], environ: dict[str, str]) -> float:
    """Seconds until the dashboard shows its first text in a terminal of 80x24."""
    began = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(environ | {"LINES": "24", "COLUMNS": "80", "LANG": "C.UTF-8"})
        os.execv(argv[0], list(argv))
    seen = b""
    try:
        while FIRST_TEXT not in seen:
            ready, _, _ = select.select([terminal], [], [], SECONDS)
            chunk = os.read(terminal, 65536) if ready else b""
            if not chunk:
                fail(f"{' '.join(argv)} painted nothing, but {seen[-500:]!r}.")
            seen += chunk
        return time.monotonic() - began
    except OSError:
        fail(f"{' '.join(argv)} ended with {seen[-500:]!r}.")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def main(dist: Path) -> None:
    """Check everything in a folder, and print the first paints."""
    dist = dist.resolve()
    forms: dict[str, list[str]] = {"virtual environment": [str(Path(sys.executable).parent / "tallyglass")]}
    with tempfile.TemporaryDirectory(prefix="tallyglass-check-") as name:
        work = Path(name)
        (archive,) = dist.glob("*.pyz")
        check_archive(archive, work)
        forms["tallyglass.pyz"] = [sys.executable, str(archive)]
        for pattern, unpack in (("*-linux-x86_64.tar.gz", unpack_tar), ("*.deb", unpack_deb), ("*.rpm", unpack_rpm)):
            (package,) = dist.glob(pattern)
            program = check_contained(package, unpack, work / package.name)
            if unpack is unpack_tar:
                forms["self-contained"] = [str(program)]
        environ = {"HOME": str(work), "TERM": "xterm-256color", "SHIV_ROOT": str(work / "shiv")}
        times: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(RUNS):
            for form, argv in forms.items():
                times[form].append(first_paint([*argv, NOWHERE], environ))
    base = statistics.median(times["virtual environment"])
    for form, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"first screen, {form:20} {middle:5.2f} s, {middle / base:4.1f} times; first run {seconds[0]:5.2f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
