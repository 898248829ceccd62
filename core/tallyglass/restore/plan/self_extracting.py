"""One file that unpacks a plan's folder and runs its script."""

from __future__ import annotations

import hashlib

from tallyglass.moment import iso
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.folder import CHECKSUMS, SCRIPT, folder_files, mode_of
from tallyglass.text import clean, shell_quote

MODE = 0o700
"""The script's file mode: only its owner can read and run it."""


def script(plan: Plan) -> str:
    """The folder as one bash file, which unpacks it to the plan's work directory and runs ``restore.sh`` there with its
    own options. Save it with mode :data:`MODE`. Raises InputError for a plan that blocks."""
    found = folder_files(plan)
    end = f"END_{hashlib.sha256(found[CHECKSUMS].encode()).hexdigest()[:12]}"
    parts = [
        "#!/usr/bin/env bash",
        f"# Restores {clean(plan.facts.set_name)} to just before {plan.facts.limit} ({iso(plan.facts.limit.time)}).",
        "# Unpacks the folder of the plan, and runs restore.sh in it: README.md there says more.",
        _IN_BASH,
        f"W={shell_quote(plan.steps.work_dir)}",
        _UNPACK.replace("@CHECKSUMS@", CHECKSUMS),
    ]
    for name, text in found.items():
        parts.append(f"unpack {name} {mode_of(name):o} <<'{end}'\n{text}{end}")
    parts.append(_RUN.replace("@CHECKSUMS@", CHECKSUMS).replace("@SCRIPT@", SCRIPT))
    return "\n".join(parts)


_IN_BASH = '[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@"'
"""Restarts the script in bash if it was started with another shell."""

_UNPACK = """\
set -euo pipefail
umask 077
T=$W.new.$$
stop() {
  rm -rf "$T"
  printf 'STOPPED: %s\\n' "$*" >&2
  exit 1
}
unpack() { { cat >"$T/$1" && chmod "$2" "$T/$1"; } 2>/dev/null || stop "[folder] $T/$1 cannot be written."; }
mkdir -p "$(dirname -- "$W")" 2>/dev/null && mkdir "$T" 2>/dev/null || stop "[folder] $T cannot be made."
"""

_RUN = """\
if [ ! -e "$W/@CHECKSUMS@" ]; then
  [ ! -e "$W" ] || rmdir "$W" 2>/dev/null || stop "[other-plan] $W exists and is not the folder of a plan."
  mv "$T" "$W" || stop "[folder] $W cannot be written."
elif ! cmp -s "$T/@CHECKSUMS@" "$W/@CHECKSUMS@"; then
  stop "[other-plan] $W belongs to another plan. Move it away, or plan with another --work-dir."
fi
rm -rf "$T"
exec bash "$W/@SCRIPT@" "$@"
"""
