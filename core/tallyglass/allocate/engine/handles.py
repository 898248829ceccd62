"""Prepares the caller's collection for allocation: right client, safe write concern, primary, plain documents.

The caller's client is used, never owned or closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from pymongo import ReadPreference, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern

from tallyglass.allocate.errors import UnsafeWriteConcern, WrongClient
from tallyglass.text import clean, clean_name

Documents: TypeAlias = Collection[dict[str, Any]]
"""A prepared collection. Allocators are type-checked against the synchronous driver; with an asynchronous client the
object is an AsyncCollection or a Motor collection, whose methods have the same names and return awaitables."""

SyncCollection: TypeAlias = Collection[Any]
"""What the synchronous classes accept."""

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorCollection

    AnyAsyncCollection: TypeAlias = AsyncCollection[Any] | AsyncIOMotorCollection[Any]
else:
    AnyAsyncCollection = AsyncCollection
"""What the asynchronous classes accept. Motor need not be installed."""

MAJORITY: Final = WriteConcern("majority", j=True)
"""Acknowledged by a majority, on disk: survives a failover or a crash."""

PLAIN: CodecOptions[dict[str, Any]] = CodecOptions(
    uuid_representation=UuidRepresentation.STANDARD, unicode_decode_error_handler="replace"
)
"""How the library's own documents are written, whatever the client: two clients that wrote one UUID in two ways would
have two counters for it."""


def is_safe(concern: WriteConcern) -> bool:
    """Whether a write concern keeps an acknowledged increment through a failover."""
    return concern.document.get("w") == "majority" and concern.document.get("j") is not False


def prepare(
    collection: Any,
    write_concern: WriteConcern | None = None,
    unsafe: WriteConcern | None = None,
    *,
    asynchronous: bool,
    inserts: bool = False,
) -> Documents:
    """The collection with the options that allocation needs. Raises WrongClient, UnsafeWriteConcern.

    ``unsafe`` is a weak write concern that was requested explicitly. With ``inserts`` the collection is for the
    caller's documents, which are written as the caller's client writes them.
    """
    concern = choose_concern(write_concern, unsafe)
    check_kind(collection, asynchronous=asynchronous)
    if not concern.acknowledged:
        raise UnsafeWriteConcern("An unacknowledged write returns no id.", "Use at least w: 1.")
    if collection.database.name == "local":
        raise UnsafeWriteConcern(
            "The database local is not replicated: after a failover another member hands out the same ids.",
            "Use another database.",
        )
    prepared = collection.with_options(
        codec_options=_as_the_caller(collection.codec_options) if inserts else PLAIN,
        read_preference=ReadPreference.PRIMARY,
        write_concern=concern,
        read_concern=ReadConcern("majority" if is_safe(concern) else "local"),
    )
    return cast(Documents, prepared)


def _as_the_caller(options: CodecOptions[Any]) -> CodecOptions[dict[str, Any]]:
    found = options.uuid_representation
    chosen = UuidRepresentation.STANDARD if found == UuidRepresentation.UNSPECIFIED else found
    return PLAIN.with_options(uuid_representation=chosen, type_registry=options.type_registry)


def choose_concern(write_concern: WriteConcern | None, unsafe: WriteConcern | None) -> WriteConcern:
    """The write concern to use. A weak ``write_concern`` is refused; ``unsafe`` was requested explicitly."""
    if write_concern is not None and not is_safe(write_concern):
        raise UnsafeWriteConcern(
            f"The write concern {clean(str(write_concern.document))} can lose an increment that was acknowledged, "
            "and then the same ids are handed out again.",
            "Leave it out; or give it as unsafe_write_concern if duplicates are acceptable.",
        )
    if unsafe or write_concern is None:
        return unsafe or MAJORITY
    # A set may be configured to acknowledge a majority before it is on disk.
    return WriteConcern("majority", write_concern.document.get("wtimeout"), j=True)


def check_kind(collection: Any, *, asynchronous: bool) -> None:
    """Raise WrongClient if the collection's client does not fit the allocator."""
    if isinstance(collection, Collection):
        found = False
    elif isinstance(collection, AsyncCollection) or type(collection).__module__.partition(".")[0] == "motor":
        found = True
    else:
        raise WrongClient(
            f"{clean(type(collection).__name__)} is not a collection of MongoClient, AsyncMongoClient or Motor.",
            "Pass a collection such as client.shop.counters.",
        )
    if found is not asynchronous:
        raise WrongClient(
            "This collection belongs to an asynchronous client, the allocator is synchronous."
            if found
            else "This collection belongs to a synchronous client, the allocator is asynchronous.",
            "Use the class whose name begins with Async." if found else "Use the class without Async in its name.",
        )


def name_of(collection: Documents) -> str:
    """``database.collection``, safe to show."""
    return clean_name(str(collection.full_name))


def place(collection: Documents, field: str) -> str:
    """``database.collection.field``, safe to show."""
    return f"{name_of(collection)}.{clean(field)}"
