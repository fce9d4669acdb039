"""Operations of several requests: files of any size, a piece at a time. Each is a generator that
yields requests and receives the responses, so that both clients can drive it; nothing is sent here."""
from __future__ import annotations

import os
import secrets
import stat
import tarfile
import tempfile
from collections.abc import Callable, Generator
from typing import IO, Any, TypeVar

from . import _sandbox_requests as requests
from ._requests import Request
from ._sandbox_requests import Path, Place
from ._sandbox_results import FileEntry
from .errors import FileKindError, UnreadableFileError

T = TypeVar("T")
Steps = Generator[Request[Any], Any, T]

PIECE = 1 << 20


def upload(at: Place, source: Path | IO[bytes], path: Path, *, mode: int | None = None) -> Steps[int]:
    """Upload a file of the host, or the rest of an open one, to a file of the sandbox, of any size.
    Readers see the old one or the new one. Or a directory of the host, with its whole content, links as links, into one
    that is created if missing. Returns the number of bytes.

    mode  None: the mode of a source given by path; a directory's files keep theirs
    """
    opened = None
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        return (yield from _upload_tree(at, os.fspath(source), requests._path(path)))
    if isinstance(source, (str, os.PathLike)):
        opened = _open(os.fspath(source), "rb")
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o777 if mode is None else mode
    try:
        return (yield from _send(at, opened or source, requests._path(path), mode))  # type: ignore[arg-type]
    finally:
        if opened is not None:
            opened.close()


def _upload_tree(at: Place, source: str, path: str) -> Steps[int]:
    aside = f"/tmp/cloche-upload-{secrets.token_hex(8)}.tar"
    with tempfile.TemporaryFile() as packed:
        size = _pack(source, packed)
        packed.seek(0)
        try:
            yield from _send(at, packed, aside, None)
            yield requests.unpack(at, aside, path)
        except Exception:
            yield requests.remove(at, aside, force=True)
            raise
    yield requests.remove(at, aside, force=True)
    return size


def _pack(source: str, packed: IO[bytes]) -> int:
    size = 0

    def count(member: tarfile.TarInfo) -> tarfile.TarInfo:
        nonlocal size
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise UnreadableFileError(f"{os.path.join(source, member.name)}: is neither a file nor a directory nor a link")
        size += member.size
        return member

    try:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(source, ".", filter=count)
    except OSError as error:
        raise UnreadableFileError(f"{error.filename or source}: {error.strerror}") from error
    return size


def _send(at: Place, file: IO[bytes], path: str, mode: int | None) -> Steps[int]:
    piece = file.read(PIECE)
    if len(piece) < PIECE and not (rest := file.read(PIECE)):
        # A write of a whole file is atomic by itself.
        yield requests.write_file(at, path, piece, mode=mode)
        return len(piece)
    elif len(piece) < PIECE:
        piece += rest
    return (yield from _send_pieces(at, file, piece, path, mode))


def _send_pieces(at: Place, file: IO[bytes], piece: bytes, path: str, mode: int | None) -> Steps[int]:
    aside = f"{path}.cloche-upload-{secrets.token_hex(8)}"
    size = 0
    try:
        while piece:
            yield requests.write_file(at, aside, piece, offset=size or None, mode=None if size else mode)
            size += len(piece)
            piece = file.read(PIECE)
        yield requests.move(at, aside, path)
        return size
    except Exception:
        yield requests.remove(at, aside, force=True)
        raise


def download(at: Place, path: Path, target: Path | IO[bytes]) -> Steps[int]:
    """Download a file of the sandbox, of any size, into a file of the host: a path, or one open for
    writing. Returns the number of bytes."""
    entry: FileEntry = yield requests.stat(at, path)
    if entry.type == "directory":
        raise FileKindError(f"{path}: is a directory")
    if not isinstance(target, (str, os.PathLike)):
        return (yield from _fetch(at, path, target.write))
    with _open(os.fspath(target), "wb") as opened:
        return (yield from _fetch(at, path, opened.write))


def _fetch(at: Place, path: Path, write: Callable[[bytes], Any]) -> Steps[int]:
    size = 0
    while True:
        piece = yield requests.read_file(at, path, offset=size, limit=PIECE)
        write(piece.data)
        size += len(piece.data)
        if not piece.data or size >= piece.total:
            return size


def walk(at: Place, path: Path = "/workspace", *, hidden: bool = True) -> Steps[list[FileEntry]]:
    """The whole content of a directory, with its subdirectories, of any size; sorted by path."""
    entries: list[FileEntry] = []
    after = None
    while True:
        page = yield requests.list_files(at, path, recursive=True, hidden=hidden, after=after)
        entries += page.entries
        if page.next is None:
            return entries
        after = page.next


def _open(path: str, how: str) -> IO[bytes]:
    try:
        return open(path, how)
    except OSError as error:
        raise UnreadableFileError(f"{path}: {error.strerror}") from error
