"""Writing a report: the ending of the file's name decides the form."""

from __future__ import annotations

from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.report.document import Document
from tallyglass.report.html import to_html
from tallyglass.report.markdown import to_markdown
from tallyglass.text import clean
from tallyglass.whole_file import check_writable, write_whole

_FORMS = {".html": to_html, ".htm": to_html, ".md": to_markdown}


def check_report(path: Path) -> None:
    """Raise InputError where :func:`write_report` could not write, or would replace a file."""
    if path.suffix.lower() not in _FORMS:
        raise InputError(f"{clean(path.name)} ends neither in .html nor in .md.", "The ending decides the form.")
    check_writable(path)
    if path.exists():
        raise InputError(f"{clean(str(path))} exists already.", "Name a new file.")


def write_report(path: Path, document: Document) -> None:
    """Write the report, as Markdown unless its ending says otherwise, readable by its owner alone.

    Raises InputError where it cannot be written.
    """
    write_whole(path, _FORMS.get(path.suffix.lower(), to_markdown)(document))
