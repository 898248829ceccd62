"""What stands at the right of the line of pages: the deployment, the age of what is shown, the rate. Pure."""

from __future__ import annotations

from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.text import clean
from tallyglass_tui import format as fmt
from tallyglass_tui.shell.refresh_rate import RefreshRate
from tallyglass_tui.widgets.line_view import Piece

_STALE_SECONDS = 5.0


def status_pieces(
    label: str, deployment: Deployment | None, age: float | None, rate: RefreshRate, width: int
) -> tuple[Piece, ...]:
    """The pieces. ``label`` names the profile; ``age``, in seconds, is shown once it is unusual; ``width`` in cells."""
    pieces: list[Piece] = []
    if label:
        pieces += [(f" {clean(label, 20)} ", "nav--here"), (" ", "")]
    if deployment:
        pieces.append((_deployment_line(deployment, width), ""))
    if age is not None and age > max(_STALE_SECONDS, 2 * (rate.interval or 0)):
        pieces.append((f" · {fmt.duration(age)} old", "nav--alert"))
    style = "nav--alert" if rate.paused or rate.slow else "nav--muted"
    pieces.append((f" · {rate.badge} ", style))
    return tuple(pieces)


def _deployment_line(deployment: Deployment, width: int) -> str:
    """The deployment in as many words as the width allows."""
    name = f"{deployment.kind} {deployment.set_name}" if deployment.set_name else str(deployment.kind)
    if width < 100:
        short = f"rs {deployment.set_name[:12]}" if deployment.kind is Kind.REPLICA_SET else str(deployment.kind)
        return f"{short} {deployment.version}"
    primary = f" · primary {deployment.primary}" if deployment.primary else ""
    members = f" · {fmt.plural(len(deployment.members), 'member')}" if deployment.members and width >= 140 else ""
    return f"{name} · {deployment.version}{members}{primary if width >= 120 else ''}"
