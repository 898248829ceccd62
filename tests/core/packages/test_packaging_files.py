"""The first code that each packaged form runs, and the helpers of the build."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import click
import pytest

from tallyglass_tui.cli.main import main

PACKAGING = Path(__file__).parents[3] / "packaging"
FILES = PACKAGING / "files"
BUILD: dict[str, Any] = runpy.run_path(str(PACKAGING / "build.py"))
LINUX = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="the self-contained build is for Linux on x86-64"
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The launcher with a program that prints its arguments, in its own folder and linked from another."""
    (tmp_path / "app" / "lib").mkdir(parents=True)
    launcher = tmp_path / "app" / "tallyglass"
    launcher.write_text((FILES / "launcher.sh").read_text().replace("@GLIBC@", "2.35"))
    program = tmp_path / "app" / "lib" / "tallyglass"
    program.write_text('#!/bin/sh\necho "started: $# $*"\n')
    for path in (launcher, program):
        path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tallyglass").symlink_to("../app/tallyglass")
    return tmp_path


def launch(installed: Path, environ: dict[str, str] | None = None, **answers: str) -> subprocess.CompletedProcess[str]:
    """Start the launcher through its link, with programs that give these answers first on PATH."""
    for name, text in answers.items():
        fake = installed / "bin" / name
        fake.write_text(f"#!/bin/sh\necho '{text}'\n")
        fake.chmod(0o755)
    path = f"{installed / 'bin'}:{os.environ['PATH']}"
    argv = [str(installed / "bin" / "tallyglass"), "oid", "a b"]
    return subprocess.run(argv, env={"PATH": path} | (environ or {}), capture_output=True, text=True, check=False)


@LINUX
@pytest.mark.parametrize("glibc", ["glibc 2.35", "glibc 2.41", "something else"])
def test_the_launcher_starts_the_program_with_its_words(installed: Path, glibc: str) -> None:
    done = launch(installed, getconf=glibc)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started: 2 oid a b\n", "")


@LINUX
def test_the_launcher_names_an_old_glibc_and_the_alternative(installed: Path) -> None:
    done = launch(installed, getconf="glibc 2.34")
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs glibc 2.35 or newer, and this system has 2.34. Use tallyglass.pyz" in done.stderr


@LINUX
def test_the_launcher_finds_the_certificates_of_the_system(installed: Path, tmp_path: Path) -> None:
    launcher, program = tmp_path / "app" / "tallyglass", tmp_path / "app" / "lib" / "tallyglass"
    launcher.write_text(launcher.read_text().replace("/etc/", f"{tmp_path}/etc/"))
    program.write_text('#!/bin/sh\necho "${SSL_CERT_FILE-none}"\n')
    assert launch(installed).stdout == "none\n"
    red_hat = tmp_path / "etc" / "pki" / "tls" / "certs" / "ca-bundle.crt"
    red_hat.parent.mkdir(parents=True)
    red_hat.touch()
    assert launch(installed).stdout == f"{red_hat}\n"
    assert launch(installed, {"SSL_CERT_FILE": "/own.pem"}).stdout == "/own.pem\n"
    assert launch(installed, {"SSL_CERT_DIR": "/own"}).stdout == "none\n"


@LINUX
def test_the_launcher_names_another_processor(installed: Path) -> None:
    done = launch(installed, uname="aarch64")
    assert done.returncode == 1
    assert "this machine is aarch64" in done.stderr


def start_archive(**environ: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(FILES / "pyz_main.py")]
    return subprocess.run(argv, env=os.environ | environ, capture_output=True, text=True, check=False)


def test_the_archive_asks_for_a_writable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o444)
    done = start_archive(SHIV_ROOT=str(tmp_path / "file" / "cache"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not writable" in done.stderr
    assert "SHIV_ROOT" in done.stderr
    # If it can unpack itself, it continues to the code that only a built archive has.
    assert "_bootstrap" in start_archive(SHIV_ROOT=str(tmp_path / "new" / "cache")).stderr


def test_the_archive_names_an_old_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code: dict[str, Any] = runpy.run_path(str(FILES / "pyz_main.py"))
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit):
        code["start"]()
    assert "needs Python 3.11 or newer, and this is 3.9." in capsys.readouterr().err


@pytest.mark.parametrize(("original", "child"), [("", ""), ("/opt/lib", "/opt/lib")])
def test_started_programs_get_the_library_path_of_the_user(original: str, child: str) -> None:
    code = f"""
import os, runpy, sys
import tallyglass_tui.cli.entry as entry
sys._MEIPASS = "/bundle"
entry.main = lambda: print(os.environ.get("LD_LIBRARY_PATH", ""), end="")
runpy.run_path({str(FILES / "bundle_main.py")!r})
"""
    environ = os.environ | {"LD_LIBRARY_PATH": "/bundle"} | ({"LD_LIBRARY_PATH_ORIG": original} if original else {})
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == child


def test_the_needed_glibc_is_the_highest_one(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(b"\x7fELF..GLIBC_2.9\0GLIBC_2.17\0")
    (tmp_path / "b.so").write_bytes(b"\x7fELF..GLIBC_2.4\0")
    (tmp_path / "text").write_bytes(b"GLIBC_2.99")
    assert BUILD["needed_glibc"](tmp_path) == "2.17"


def test_two_archives_of_one_folder_are_equal(tmp_path: Path) -> None:
    for name, moment in (("one", 1), ("two", 1_000_000_000)):
        folder = tmp_path / name / "app"
        (folder / "lib").mkdir(parents=True)
        for path, mode in ((folder / "run", 0o711), (folder / "lib" / "data", 0o600)):
            path.write_text("x")
            path.chmod(mode)
            os.utime(path, (moment, moment))
        BUILD["pack"](folder, tmp_path / f"{name}.tar.gz", 1_700_000_000)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as packed:
        entries = {entry.name: (entry.mode, entry.mtime, entry.uid) for entry in packed if entry.isfile()}
    assert entries == {"app/run": (0o755, 1_700_000_000, 0), "app/lib/data": (0o644, 1_700_000_000, 0)}


def test_another_first_module_keeps_the_rest_of_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "x.pyz"
    with archive.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w") as packed:
            packed.writestr("__main__.py", "print('old')")
            packed.writestr("other.py", "text = 'kept'")
    BUILD["replace_main"](archive, b"import other; print('new', other.text)")
    assert subprocess.run([archive], capture_output=True, text=True, check=True).stdout == "new kept\n"


@pytest.mark.parametrize("unit", sorted(FILES.glob("*.service")), ids=lambda unit: unit.name)
def test_units_start_a_command_with_options_that_it_has(unit: Path) -> None:
    (start,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    _, name, *words = start.split("=", 1)[1].split()
    command = main.get_command(click.Context(main), name)
    assert command is not None
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    assert {*options} <= {option for parameter in command.params for option in parameter.opts}
    (settings,) = [line for line in unit.read_text().splitlines() if line.startswith("EnvironmentFile=")]
    assert (FILES / Path(settings).name).exists()
