"""Check a wheel and a source distribution as a user gets them: ``python packaging/check_dist.py DIST``.

The wheel is installed alone into a new environment. It must install only its three dependencies, and must run. The
source distribution is unpacked into an empty folder, installed there with the lowest versions of its dependencies, and
must pass its own unit tests: one run of them shows both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ALLOWED = {"tallyglass", "pymongo", "dnspython", "click", "platformdirs", "pip", "setuptools"}
IMPORTS = "import tallyglass, tallyglass.allocate, tallyglass.objectid; from tallyglass.counters import watch"
OBJECT_ID = "656b5e7d0f3c2a1b9d8e7f60"
UNIT = ["tests/core", "tests/tui", "-m", "not (soak or long or live or terminal or tools)"]


def run(*argv: str | Path, cwd: Path) -> str:
    """Run a program outside the checkout and return its output. Exits with a message if it fails."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in argv], cwd=cwd, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"dist: {' '.join(map(str, argv))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def environment(folder: Path, *requirements: str | Path, cwd: Path, constraints: Path) -> Path:
    """Create an environment with these requirements and return its folder of programs."""
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "-q", "-c", constraints, *requirements, cwd=cwd)
    return folder / "bin"


def check_wheel(wheel: Path, folder: Path, constraints: Path) -> None:
    """Check that the wheel installs with only its three dependencies, and runs."""
    programs = environment(folder / "wheel", wheel, cwd=folder, constraints=constraints)
    listed = run(programs / "python", "-m", "pip", "list", "--format=freeze", cwd=folder)
    more = {line.partition("==")[0].lower() for line in listed.split()} - ALLOWED
    if more:
        raise SystemExit(f"dist: the wheel without extras installs {', '.join(sorted(more))}.")
    run(programs / "python", "-c", IMPORTS, cwd=folder)
    output = run(programs / "tallyglass", "oid", OBJECT_ID, cwd=folder)
    if "2023-12-02" not in output:
        raise SystemExit(f"dist: tallyglass oid printed {output!r}.")
    version = run(programs / "tallyglass", "--version", cwd=folder).split()[-1]
    if f"-{version}-" not in wheel.name:
        raise SystemExit(f"dist: {wheel.name} reports version {version}.")


def check_source(archive: Path, folder: Path) -> None:
    """Check that the source distribution installs from an empty folder and passes its own unit tests.

    The versions are the lowest that ``pyproject.toml`` allows.
    """
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "source", filter="data")
    (root,) = (folder / "source").iterdir()
    programs = environment(folder / "tests", "-e", ".[tui,test]", cwd=root, constraints=root / "constraints-lowest.txt")
    print(run(programs / "python", "-m", "pytest", "-q", "-n", "4", *UNIT, cwd=root).splitlines()[-1])


def main(dist: Path) -> None:
    """Check the wheel and the source distribution in a folder."""
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        check_wheel(wheel.resolve(), Path(name), Path("constraints.txt").resolve())
        print(f"{wheel.name}: installs and runs")
        check_source(archive.resolve(), Path(name))
        print(f"{archive.name}: passes its own unit tests with the lowest versions")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
