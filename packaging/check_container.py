"""Build the container file and try the image: ``python packaging/check_container.py DIST [BASE]``.

Without ``BASE``, the base is a Debian that debootstrap installs, so no image registry is needed. The image runs as its
own user, with a read-only file system and without a network. This needs root, buildah and, without ``BASE``,
debootstrap; it is skipped if one of them is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from build import CONSTRAINTS, EXTRAS, FILES, HERE, run
from check_packages import NOWHERE, OBJECT_ID, expect, fail, first_paint
from check_packages import run as attempt

DEBIAN: Final = "bookworm"
USER: Final = "10001"
HOME: Final = "/home/tallyglass"
BUILDAH: Final = ("buildah", "--storage-driver", "vfs")
READ_ONLY: Final = f"""
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount --bind /dev "$1/dev" &&
mount -t tmpfs -o uid={USER},mode=700 tmpfs "$1{HOME}" || exit 125
root=$1; shift
exec chroot --userspec={USER}:{USER} "$root" "$@"
"""


class Images:
    """The images of one check, in a store of their own."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._store = ("--root", work / "images", "--runroot", work / "run")

    def buildah(self, *words: object) -> str:
        """Run buildah on this store."""
        return run(*BUILDAH, *self._store, *words)

    def debian(self) -> str:
        """A base image with Python, made from Debian packages."""
        root = self.work / "debian"
        include = "--include=python3,python3-venv,ca-certificates"
        run("debootstrap", "--variant=minbase", include, DEBIAN, root)
        shutil.rmtree(root / "var/cache/apt/archives")
        file = self.work / "Debian"
        file.write_text("FROM scratch\nCOPY debian /\n")
        self.buildah("bud", "--isolation", "chroot", "-f", file, "-t", "base", self.work)
        shutil.rmtree(root)
        return "localhost/base"

    def build(self, dist: Path, base: str) -> Path:
        """Build the image, without an index for pip to ask; the folder of its files."""
        (wheel,) = dist.glob("*.whl")
        started = self.buildah("from", base).strip()
        version = self.buildah(
            "run",
            "--isolation",
            "chroot",
            started,
            "python3",
            "-c",
            "import sys; print('%d.%d' % sys.version_info[:2])",
        ).strip()
        house, config = self.work / "wheels", self.work / "pip.conf"
        only = ["--only-binary=:all:", "--python-version", version]
        run(sys.executable, "-m", "pip", "download", "-q", "-c", CONSTRAINTS, *only, "-d", house, f"{wheel}{EXTRAS}")
        config.write_text("[global]\nno-index = true\nfind-links = /wheels\ndisable-pip-version-check = true\n")
        volumes = ["--volume", f"{house}:/wheels:ro", "--volume", f"{config}:/etc/pip.conf:ro"]
        options = ["--isolation", "chroot", "--build-arg", f"BASE={base}", "-f", FILES / "Containerfile"]
        self.buildah("bud", *options, *volumes, "-t", "tallyglass", HERE.parent)
        made = self.buildah("from", "localhost/tallyglass").strip()
        return Path(self.buildah("mount", made).strip())

    def check_settings(self) -> None:
        """The image runs the program, as a user without privileges."""
        settings = json.loads(self.buildah("inspect", "--type", "image", "localhost/tallyglass"))["OCIv1"]["config"]
        if settings.get("User") != USER or settings.get("Entrypoint") != ["tallyglass"]:
            fail(f"the image starts {settings.get('Entrypoint')} as {settings.get('User')!r}.")


def inside(root: Path, *words: str) -> list[str]:
    """The command that runs a program of the image: read-only but for its home, no network, no privileges."""
    script = ["sh", "-c", READ_ONLY, "sh", str(root)]
    return ["/usr/bin/unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", *script, *words]


def check(root: Path) -> None:
    """Try the program in the image."""
    environ = {
        "PATH": "/opt/tallyglass/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": HOME,
        "LANG": "C.UTF-8",
    }
    write = attempt(inside(root, "touch", "/etc/x", "/opt/tallyglass/x"), **environ)
    if "Read-only file system" not in write.stderr:
        fail(f"the file system of the image can be written to: {write.stdout}{write.stderr}")
    expect("container: --version", attempt(inside(root, "tallyglass", "--version"), **environ), 0, "tallyglass ")
    expect("container: oid", attempt(inside(root, "tallyglass", "oid", OBJECT_ID), **environ), 0, "2023-12-02")
    seconds = first_paint(inside(root, "tallyglass", NOWHERE), environ | {"TERM": "xterm"})
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_symlink() and path.is_file()) / 1e6
    ours = sum(path.lstat().st_size for path in (root / "opt").rglob("*") if path.is_file()) / 1e6
    print(
        f"container: runs as user {USER} with a read-only file system and without network; "
        f"{size:.0f} MB, {ours:.0f} MB of them ours; first screen after {seconds:.1f} s"
    )


def main(dist: Path, base: str = "") -> None:
    """Build and try the image, or say why not."""
    needed = ["buildah", "unshare", "chroot", *([] if base else ["debootstrap"])]
    missing = [name for name in needed if not shutil.which(name)] + ["root"] * bool(os.geteuid())
    if missing:
        print(f"container: not built; this needs {' and '.join(missing)}.")
        return
    with tempfile.TemporaryDirectory(prefix="tallyglass-container-") as name:
        images = Images(Path(name))
        try:
            root = images.build(dist.resolve(), base or images.debian())
            images.check_settings()
            check(root)
        finally:
            images.buildah("rm", "--all")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
