"""How the files of backups are compressed, and reading them: by what they hold, whatever they are called."""

from __future__ import annotations

import gzip
import importlib
import io
import zlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from tallyglass.errors import InputError
from tallyglass.oplog.entry import walk
from tallyglass.restore.backup import s2
from tallyglass.text import clean

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGEST = 64 * 1024 * 1024
"""No BSON document, oplog entries included, is larger; a greater length means a broken file."""
BAD_GZIP: Final = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a gzip file raises where it is damaged or cut off."""
_CHUNK = 2**17
"""Compressed bytes that are read at once."""


class CorruptFile(ValueError):
    """Compressed data is damaged."""


class Compression(StrEnum):
    """The compression of a file."""

    NONE = "none"
    GZIP = "gzip"
    LZMA = "lzma"
    LZ4 = "lz4"
    SNAPPY = "snappy"
    S2 = "s2"
    ZSTD = "zstd"


_BEGINNINGS = {
    b"\x1f\x8b": Compression.GZIP,
    b"\xfd7zXZ\0": Compression.LZMA,
    b"]\0\0": Compression.LZMA,
    b"\x04\x22\x4d\x18": Compression.LZ4,
    b"\x28\xb5\x2f\xfd": Compression.ZSTD,
    b"\xff\x06\0\0sNaPpY": Compression.SNAPPY,
    b"\xff\x06\0\0S2sTwO": Compression.S2,
}


def compression_of(path: Path) -> Compression:
    """The compression of a file. The length of a plain file's first document may begin like a compressed one."""
    with path.open("rb") as file:
        head = file.read(10)
        found = next((kind for start, kind in _BEGINNINGS.items() if head.startswith(start)), Compression.NONE)
        size = int.from_bytes(head[:4], "little")
        if found is not Compression.NONE and size <= LARGEST and _is_document(head + file.read(max(size - 10, 0))):
            return Compression.NONE
        return found


def _is_document(raw: bytes) -> bool:
    """Whether this is one BSON document, whatever its texts and dates: servers keep broken UTF-8 and any year."""
    try:
        walk.decode(raw, 0, len(raw))
    except walk.Malformed:
        return False
    return True


def open_plain(path: Path) -> IO[bytes]:
    """Open for reading, decompressing. Seeking back reads from the beginning again. Raises InputError if a library is
    missing."""
    match compression_of(path):
        case Compression.NONE:
            return path.open("rb")
        case Compression.GZIP:
            return gzip.open(path, "rb")  # type: ignore[return-value]
        case Compression.S2 | Compression.SNAPPY:
            return io.BufferedReader(_Decompressed(path, _s2_blocks), _CHUNK)
        case Compression.ZSTD:
            module = _library("zstandard", path)
            return _frames(path, lambda: module.ZstdDecompressor().decompressobj(), module.ZstdError)
        case Compression.LZ4:
            return _frames(path, _library("lz4.frame", path).LZ4FrameDecompressor, RuntimeError)
        case Compression.LZMA:
            module = _library("lzma", path)
            return _frames(path, module.LZMADecompressor, module.LZMAError)


def read_plain(path: Path) -> bytes:
    """The whole content of a small file, decompressed."""
    with open_plain(path) as file:
        return file.read()


def _library(name: str, path: Path) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        title = f"{clean(path.name)} cannot be decompressed without the Python package {package}."
        raise InputError(title, "Run pip install 'tallyglass[backups]'.") from None


def _frames(path: Path, new: Callable[[], Any], damage: type[Exception]) -> IO[bytes]:
    """A file of compressed frames. ``new`` makes the decoder of one frame, which raises ``damage``."""

    def chunks(file: IO[bytes]) -> Iterator[bytes]:
        decoder = None
        while data := file.read(_CHUNK):
            while data:
                decoder = decoder or new()
                try:
                    yield decoder.decompress(data)
                except damage as error:
                    raise CorruptFile(f"the compressed data is damaged ({error})") from None
                data = b""
                if decoder.eof:
                    data, decoder = decoder.unused_data or b"", None
        if decoder is not None:
            raise EOFError("the compressed data is cut off")

    return io.BufferedReader(_Decompressed(path, chunks), _CHUNK)


def _s2_blocks(file: IO[bytes]) -> Iterator[bytes]:
    try:
        yield from s2.blocks(file)
    except ValueError as error:
        raise CorruptFile(f"the compressed data is damaged ({error})") from None


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of a file, as ``chunks`` yields them."""

    def __init__(self, path: Path, chunks: Callable[[IO[bytes]], Iterator[bytes]]) -> None:
        self._path, self._decode = path, chunks
        self._rewind()

    def _rewind(self) -> None:
        self._file = self._path.open("rb")
        self._chunks, self._rest, self._at = self._decode(self._file), memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        room = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        self._at += size
        return size

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        target = offset if whence == io.SEEK_SET else self._at + offset
        if whence == io.SEEK_END or target < 0:
            raise io.UnsupportedOperation("only from the beginning")
        if target < self._at:
            self._file.close()
            self._rewind()
        while self._at < target and self.read(min(target - self._at, _CHUNK)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()
