# ruff: noqa: UP031, UP036, RUF005 - written for every Python that a machine may have
"""The first code of tallyglass.pyz. Any Python runs it, so it is written for all of them."""

import os
import sys

ADVICE = "Use the self-contained build (.deb, .rpm or tar.gz) instead."


def refuse(reason):
    sys.stderr.write("tallyglass: %s\n" % reason)
    sys.exit(1)


def start():
    if sys.version_info < (3, 11):
        refuse("This archive needs Python 3.11 or newer, and this is %d.%d. %s" % (sys.version_info[:2] + (ADVICE,)))
    root = os.path.expanduser(os.environ.get("SHIV_ROOT", "~/.shiv"))
    existing = root
    while not os.path.exists(existing):
        existing = os.path.dirname(existing) or "."
    if not os.access(existing, os.W_OK | os.X_OK):
        refuse("%s is not writable, and this archive unpacks itself there. Set SHIV_ROOT to another folder." % root)

    from _bootstrap import bootstrap

    bootstrap()


if __name__ == "__main__":
    start()
