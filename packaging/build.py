"""Build what a bastion host can run: ``python packaging/build.py DIST``, after the wheel is in that folder.

- ``tallyglass.pyz``: one file for a machine with Python 3.11 or newer.
- ``tallyglass-VERSION-linux-x86_64.tar.gz``: a folder that needs no Python, and the same as ``.deb`` and ``.rpm`` with
  manual pages, completions for bash, zsh and fish, systemd units and sample configuration.
- ``sbom.json``: the components in them, as CycloneDX.
- ``SHA256SUMS``.

Two builds of one commit with one interpreter give the same bytes. The self-contained forms need the glibc that their
interpreter needs: the one that interpreter.sh has built, else the one that runs this.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FILES: Final = HERE / "files"
CONSTRAINTS: Final = HERE.parent / "constraints.txt"
EXTRAS: Final = "[tui,metrics]"
BUILDERS: Final = "[tui,metrics,packages]"
INTERPRETER: Final = HERE.parent / ".tools" / "interpreter"
"""What interpreter.sh has built: with the versions of its parts in ``components``, their licences in ``licenses``."""
PYTHONS: Final = ("3.11", "3.12", "3.13")
"""The versions whose C extensions of the driver are in the archive; others run the driver's slower Python code."""


def run(*argv: object, **environ: str) -> str:
    """Run a program; its output. Exits with it where it fails."""
    done = subprocess.run([str(word) for word in argv], env=os.environ | environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"packages: {' '.join(map(str, argv))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def source_date() -> str:
    """The time that all files get: SOURCE_DATE_EPOCH, or that of the last commit."""
    return os.environ.get("SOURCE_DATE_EPOCH") or run("git", "-C", HERE, "log", "-1", "--format=%ct").strip()


class Build:
    """The state of one build: the wheel, the folders and the environments that it uses."""

    def __init__(self, dist: Path, work: Path) -> None:
        (self.wheel,) = dist.glob("*.whl")
        self.dist, self.work = dist, work
        self.version = self.wheel.name.split("-")[1]
        self.epoch = source_date()
        self.fixed = {"SOURCE_DATE_EPOCH": self.epoch, "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        self.app = self._environment("app", f"{self.wheel}{EXTRAS}")
        # PyInstaller bundles every optional module that it finds, so its environment has no other tools.
        own = INTERPRETER / "bin" / "python3"
        python = own if (INTERPRETER / "components").exists() else Path(sys.executable)
        self.freezer = self._environment("freezer", f"{self.wheel}{EXTRAS}", "pyinstaller", python=python)
        self.builders = self._environment("build", f"{self.wheel}{BUILDERS}")
        text = (INTERPRETER / "components").read_text() if python == own else f"cpython {platform.python_version()}\n"
        self.parts = [line.split() for line in text.splitlines()]
        """Name and version of what the self-contained forms contain beside Python distributions."""

    def _environment(self, name: str, *requirements: str, python: Path = Path(sys.executable)) -> Path:
        run(python, "-m", "venv", "--without-pip", self.work / name)
        programs = self.work / name / "bin"
        pip = [sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check"]
        run(*pip, "install", "-q", "-c", CONSTRAINTS, *requirements)
        return programs

    def archive(self) -> None:
        """``tallyglass.pyz``."""
        site = self.work / "site"
        install = [sys.executable, "-m", "pip", "install", "-q", "-c", CONSTRAINTS, "--no-compile"]
        run(*install, "--target", site, f"{self.wheel}{EXTRAS}")
        for python in PYTHONS:
            other = self.work / f"site-{python}"
            only = ["--no-deps", "--only-binary=:all:", "--python-version", python]
            run(*install, "--target", other, *only, "pymongo")
            for extension in other.rglob("*.so"):
                shutil.copy(extension, site / extension.relative_to(other))
        # These name the builder's folders.
        shutil.rmtree(site / "bin")
        for path in [*site.rglob("direct_url.json"), *site.rglob("RECORD")]:
            path.unlink()
        target = self.dist / "tallyglass.pyz"
        options = ["--compressed", "--reproducible", "-e", "tallyglass_tui.cli.entry:main", "-o", target]
        run(self.builders / "shiv", *options, "--site-packages", site, **self.fixed)
        replace_main(target, (FILES / "pyz_main.py").read_bytes())

    def bundle(self) -> tuple[Path, str]:
        """The folder that needs no Python, and the glibc that it needs."""
        out = self.work / "bundle"
        collect = [
            *("--collect-submodules", "textual.widgets", "--collect-submodules", "tallyglass"),
            *("--collect-submodules", "tallyglass_tui", "--collect-submodules", "dns"),
            *("--collect-data", "tallyglass_tui", "--collect-data", "textual"),
        ]
        paths = ["--distpath", out, "--workpath", self.work / "pyinstaller", "--specpath", self.work]
        build = [self.freezer / "pyinstaller", "-y", "--log-level", "ERROR", "--onedir"]
        run(*build, "--name", "tallyglass", *collect, *paths, FILES / "bundle_main.py", **self.fixed)
        folder = self.work / f"tallyglass-{self.version}-linux-x86_64"
        shutil.move(out / "tallyglass", folder / "lib")
        glibc = needed_glibc(folder)
        launcher = folder / "tallyglass"
        launcher.write_text((FILES / "launcher.sh").read_text().replace("@GLIBC@", glibc))
        launcher.chmod(0o755)
        self.extras(folder / "share")
        return folder, glibc

    def extras(self, share: Path) -> None:
        """Manual pages, completions and sample files, in the layout of ``/usr/share``."""
        run(self.builders / "python", HERE / "manual.py", share, self.version, self.epoch)
        document = share / "doc" / "tallyglass"
        document.mkdir(parents=True)
        shutil.copy(HERE.parent / "LICENSE", document / "copyright")
        self._licenses(document / "licenses")
        for name in ("profiles.toml", "export.env", "metrics.env", "watch.env"):
            shutil.copy(FILES / name, document / name)

    def _licenses(self, folder: Path) -> None:
        """The licences of what is contained: of each distribution, and of the parts of the interpreter."""
        folder.mkdir()
        for name, _ in self.parts:
            if (text := INTERPRETER / "licenses" / name).exists():
                shutil.copy(text, folder / name)
        for info in self.work.glob("freezer/lib/python*/site-packages/*.dist-info"):
            for text in sorted(info.rglob("*")):
                if text.is_file() and re.match("(?i)(licen[cs]e|copying|notice)", text.name):
                    shutil.copy(text, folder / f"{info.name.split('-')[0]}-{text.name}")

    def packages(self, folder: Path, glibc: str) -> None:
        """``.deb`` and ``.rpm``."""
        stage = self.work / "stage"
        shutil.copytree(folder / "share", stage / "usr" / "share")
        shutil.copytree(folder / "lib", stage / "usr" / "lib" / "tallyglass" / "lib")
        shutil.copy2(folder / "tallyglass", stage / "usr" / "lib" / "tallyglass" / "tallyglass")
        (stage / "usr" / "bin").mkdir()
        (stage / "usr" / "bin" / "tallyglass").symlink_to("../lib/tallyglass/tallyglass")
        units = stage / "usr" / "lib" / "systemd" / "system"
        units.mkdir(parents=True)
        for unit in [*FILES.glob("*.service"), *FILES.glob("*.timer")]:
            shutil.copy(unit, units / unit.name)
        settle(stage, int(self.epoch))
        moment = datetime.fromtimestamp(int(self.epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = {"STAGE": str(stage), "VERSION": self.version, "GLIBC": glibc, "BUILD_TIME": moment}
        text = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], (HERE / "nfpm.yaml").read_text())
        config = self.work / "nfpm.yaml"
        config.write_text(text)
        for kind in ("deb", "rpm"):
            run(self.builders / "nfpm", "package", "-f", config, "-p", kind, "-t", self.dist, **self.fixed)

    def bill_of_materials(self) -> None:
        """``sbom.json``: the distributions that everything was built from, and the parts of the interpreter."""
        for path in (self.work / "app").rglob("direct_url.json"):
            path.unlink()  # it names the builder's folder
        command = [self.builders / "cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON"]
        bill = json.loads(run(*command, self.app / "python", **self.fixed))
        bill["components"] += [
            {
                "bom-ref": name,
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:generic/{name}@{version}",
            }
            for name, version in self.parts
        ]
        (self.dist / "sbom.json").write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")


def replace_main(archive: Path, code: bytes) -> None:
    """Give a zip application another first module, and keep everything else as it is."""
    with archive.open("rb") as stream:
        shebang = stream.readline()
    with zipfile.ZipFile(archive) as old:
        entries = [(info, code if info.filename == "__main__.py" else old.read(info)) for info in old.infolist()]
    with archive.open("wb") as stream:
        stream.write(shebang)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
            for info, data in entries:
                new.writestr(info, data)
    archive.chmod(0o755)


def needed_glibc(folder: Path) -> str:
    """The highest version of glibc that any program or library in a folder asks for."""
    versions = {
        int(minor)
        for path in folder.rglob("*")
        if path.is_file() and (data := path.read_bytes())[:4] == b"\x7fELF"
        for minor in re.findall(rb"GLIBC_2\.(\d+)", data)
    }
    return f"2.{max(versions)}"


def settle(folder: Path, epoch: int) -> None:
    """Give all files in a folder one time."""
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def pack(folder: Path, target: Path, epoch: int) -> None:
    """A folder as tar.gz: sorted, with one time and without the builder's user."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "root", "root"
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=raw) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in [folder, *sorted(folder.rglob("*"))]:
            archive.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)


def checksums(dist: Path) -> None:
    """``SHA256SUMS`` over everything in the folder."""
    files = sorted(path for path in dist.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (dist / "SHA256SUMS").write_text("".join(lines))


def main(dist: Path) -> None:
    """Build everything into ``dist``."""
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="tallyglass-build-") as name:
        build = Build(dist.resolve(), Path(name))
        build.archive()
        folder, glibc = build.bundle()
        pack(folder, build.dist / f"{folder.name}.tar.gz", int(build.epoch))
        build.packages(folder, glibc)
        build.bill_of_materials()
    checksums(dist)
    for path in sorted(dist.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")
    print(f"The self-contained build needs glibc {glibc}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
