"""Requests about the daemon's image store, and their results."""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from ._requests import Request
from ._results import Raw, _get, _list, read_object, read_rows
from ._rpc import Message
from ._sandbox_requests import Path
from ._sandbox_results import ImageImport
from ._transfer import PIECE, Steps, _open
from ._values import Encoder
from .errors import InvalidArgumentError


@dataclass(frozen=True)
class ImageInfo:
    """An image of the store."""

    id: str
    names: tuple[str, ...]
    tree: str
    """The digest of its files; runs and sandboxes take it as `image`, like a name."""
    size: int
    entries: int
    imported_at: str
    last_used_at: str | None
    """When a box was last made of it, or it was imported."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """As the image states it: env, workingDir, user, entrypoint, cmd, labels, exposedPorts, volumes."""
    notes: tuple[str, ...] = ()
    """Parts of the configuration that do not apply in boxes, and why."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> ImageInfo:
        return cls(_get(raw, "id", str, ""), tuple(_get(raw, "names", list, [])), _get(raw, "tree", str, ""), _get(raw, "size", int, 0),
                   _get(raw, "entries", int, 0), _get(raw, "importedAt", str, ""), _get(raw, "lastUsedAt", str, None), _get(raw, "config", dict, {}),
                   tuple(_get(raw, "notes", list, [])), raw)


@dataclass(frozen=True)
class ImageCheck:
    """The comparison of an image with its digest."""

    is_whole: bool
    tree: str
    found: str
    change_count: int
    changes: tuple[Raw, ...] = ()
    """The first entries that differ: path, change, was, is."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> ImageCheck:
        return cls(_get(raw, "isWhole", bool, False), _get(raw, "tree", str, ""), _get(raw, "found", str, ""), _get(raw, "changeCount", int, 0),
                   tuple(_list(raw, "changes")), raw)


@dataclass(frozen=True)
class WarmInterpreter:
    """An interpreter in an image from which runs are forked."""

    language: str
    is_new: bool
    """False: it was ready before."""
    memory_bytes: int
    """The memory that it took to start."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> WarmInterpreter:
        return cls(_get(raw, "language", str, ""), _get(raw, "isNew", bool, False), _get(raw, "memoryBytes", int, 0), raw)


def images() -> Request[list[ImageInfo]]:
    """List the images of the daemon's store."""
    return Request("image.list", {}, lambda message: [ImageInfo.read(row) for row in read_rows(message, "images")])


def image(image: str) -> Request[ImageInfo]:
    """One image, by its name (NAME[:TAG]), its digest or that of its tree."""
    return Request("image.get", _named(image), lambda message: ImageInfo.read(read_object(message)))


def verify_image(image: str) -> Request[ImageCheck]:
    """Have the files of an image read again, and compared with its digest."""
    return Request("image.verify", _named(image), lambda message: ImageCheck.read(read_object(message)))


def delete_image(image: str) -> Request[None]:
    """Remove a name, and with the last one the image. One in use is refused with its users (InvalidStateError). The
    daemon's option --image-changes decides who may."""
    return Request("image.delete", _named(image), lambda message: None)


def prune_images(*, keep_bytes: int | None = None) -> Request[dict[str, Any]]:
    """Remove images without a name, and the remains of killed imports; those in use stay. Returns the numbers: images, trees,
    leftovers, inUse, keptBytes.

    keep_bytes  remove named images too, those first that were not used for longest, until the trees of all have at most this size
    """
    return Request("image.prune", {} if keep_bytes is None else {"keepBytes": keep_bytes}, read_object)


def warm_image(image: str, *languages: str, image_settings: Mapping[str, Any] | None = None) -> Request[list[WarmInterpreter]]:
    """Start interpreters in an image; the caller's runs in it are then forked from them. Returns when all are ready. Each
    ends after ten minutes without use, and until then the image is in use.

    image_settings  what applies with a digest in place of a name: {"env": …, "workingDirectory": …, "runsAs": …}
    """
    params = {**_named(image), "languages": list(languages), **({} if image_settings is None else {"imageSettings": dict(image_settings)})}
    return Request("image.warm", params, lambda message: [WarmInterpreter.read(row) for row in read_rows(message, "interpreters")])


def import_image(source: Path | IO[bytes], image: str, *, tag: str | None = None) -> Steps[ImageImport]:
    """Import an archive into the daemon's store: a file of the host, or the rest of an open one. It is an OCI layout in a
    tar file, an archive of `docker save`, or a tar file of a root file system, plain or compressed. An import that fails
    leaves nothing. The daemon's option --image-changes decides who may.

    image  the name to give: NAME[:TAG]
    tag    the image to take, if the archive has several
    """
    if not isinstance(source, (str, os.PathLike)):
        return (yield from _send(source, image, tag))
    with _open(os.fspath(source), "rb") as opened:
        return (yield from _send(opened, image, tag))


def _send(file: IO[bytes], image: str, tag: str | None) -> Steps[ImageImport]:
    place: dict[str, Any] = {**_named(image), **({} if tag is None else {"tag": tag})}
    piece = file.read(PIECE)
    while following := file.read(PIECE):
        place = {"upload": (yield _piece("image.upload", place, piece, _upload_of))}
        piece = following
    result: ImageImport = yield _piece("image.import", place, piece, lambda message: ImageImport.read(read_object(message)))
    return result


def _piece(method: str, place: dict[str, Any], piece: bytes, read: Any) -> Request[Any]:
    encoder = Encoder()
    return Request(method, {**place, "content": encoder.value(piece, "content")}, read, encoder.parts)


def _upload_of(message: Message) -> str:
    return str(_get(read_object(message), "upload", str, ""))


def _named(image: str) -> dict[str, Any]:
    if not isinstance(image, str) or not image:
        raise InvalidArgumentError(f"image must be the name of an image, not {image!r}")
    return {"image": image}
