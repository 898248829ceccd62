"""What the commands of a plan's folder read: the plan, and the servers that they work on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.text import clean
from tallyglass_tui.cli.headless import ask
from tallyglass_tui.cli.options import ConnectionOptions, target_of

if TYPE_CHECKING:
    from tallyglass.connection.target import Target
    from tallyglass.mongo.gateway import Gateway
    from tallyglass.restore.model.plan import Plan

Answer = TypeVar("Answer")

_PLAN_BYTES = 200_000_000  # of a plan that lists a million ids; a file that is no plan must not fill the memory
# Counting a large collection is one command without an answer for minutes; heartbeats notice a dead server.
PATIENT: dict[str, Any] = {"socketTimeoutMS": 3_700_000}


def server(named: str, given: ConnectionOptions) -> Target:
    """The server of a URI, of HOST:PORT, or of a configuration file of the database tools (``*.yml``), whose password
    is taken where it has one. ``given`` has a password file and a driver. Raises InputError."""
    if not named.endswith(".yml"):
        uri = named if "://" in named else f"mongodb://{named}/?directConnection=true"
        return target_of(replace(given, uri=uri))
    from tallyglass.connection.secret import Secret
    from tallyglass.connection.target import Target
    from tallyglass.restore.tools.files import read_config

    try:
        uri, password = read_config(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{clean(named)} cannot be read: {error.strerror}.", "Run it in the plan's folder.") from None
    except ValueError:
        raise InputError(f"{clean(named)} is not a configuration file of the database tools.") from None
    if password and not given.password_file:
        return Target.parse(uri).with_password(Secret(password))
    return target_of(replace(given, uri=uri))


def ask_live(plan: Plan, target: Target, work: Callable[[Gateway], Awaitable[Answer]], **options: Any) -> Answer:
    """Run ``work`` on the live set of a plan, without a deadline. Raises InputError where the target is another set."""
    from tallyglass.restore.undo.return_needs import check_set

    async def checked(gateway: Gateway) -> Answer:
        await check_set(gateway, plan.facts)
        return await work(gateway)

    return ask(target, checked, None, **options)


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises InputError."""
    from tallyglass.restore.model.document import from_json

    try:
        with absolute_path(path).open(encoding="utf-8") as file:
            return from_json(file.read(_PLAN_BYTES))
    except UnicodeDecodeError:
        raise InputError(f"{clean(str(path))} is not a plan.") from None
    except OSError as error:
        raise InputError(f"The plan {clean(str(path))} cannot be read: {error.strerror}.") from None
