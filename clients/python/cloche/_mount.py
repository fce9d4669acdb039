"""A host directory shown in a box: its rules, and the treatment of changes."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import InvalidArgumentError

Right = Literal["read", "list", "create", "modify", "delete", "*"]
OnError = Literal["rollback", "continue", "abort"]
Conflict = Literal["refuse", "keepBoth", "overwrite"]
"""The treatment of a file that the host has changed in the meantime."""
Links = Literal["any", "inside"]
"""inside: symbolic links that lead out of their directory are refused."""


@dataclass(frozen=True)
class Rule:
    """The first rule whose pattern matches decides, higher priorities first; deny before allow;
    permissions that it does not name keep the default."""

    pattern: str
    allow: Right | Sequence[Right] = ()
    deny: Right | Sequence[Right] = ()
    priority: int = 0

    def tree(self) -> dict[str, Any]:
        return {"pattern": self.pattern, "allow": _listed(self.allow), "deny": _listed(self.deny), "priority": self.priority}


@dataclass(frozen=True)
class Permissions:
    default: Mapping[Right, bool] = field(default_factory=dict)
    """Permissions without a rule; by default read and list are permitted, create, modify and delete are not."""
    rules: Sequence[Rule] = ()
    exclude: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        for rule in self.rules:
            _check(rule, Rule, "Permissions.rules", 'Rule("*.csv", allow="create")')

    def tree(self) -> dict[str, Any]:
        return {"default": dict(self.default), "rules": [rule.tree() for rule in self.rules], "exclude": _listed(self.exclude)}


@dataclass(frozen=True)
class Loading:
    mode: Literal["eager", "lazy", "explicit"] = "lazy"
    include: str | Sequence[str] = ()
    max_file_size: int | None = None
    max_total_size: int | None = None

    def tree(self) -> dict[str, Any]:
        return _given(mode=self.mode, include=_listed(self.include) or None, maxFileSize=self.max_file_size, maxTotalSize=self.max_total_size)


@dataclass(frozen=True)
class Sync:
    mode: Literal["batch", "manual"] = "batch"
    """batch: after a successful run; manual: by client.sync(result.changes)."""
    on_error: OnError = "rollback"
    conflict: Conflict | None = None
    allow_abort: bool | None = None
    """False: if before_sync returns abort, its change alone is skipped. None is True."""

    links: Links | None = None

    def tree(self) -> dict[str, Any]:
        return _given(mode=self.mode, onError=self.on_error, conflict=self.conflict, allowAbort=self.allow_abort, links=self.links)


@dataclass(frozen=True)
class Mount:
    """dirs: the path in the box, and the path on the host: a directory, or one file under any name. One may lie in another.

    follow_symlinks: True (the default) shows links as they are, and the box resolves them, within its own files
    only; "restricted" refuses links that leave their mount (EACCES), False all (ELOOP)."""

    dirs: Mapping[str, str | os.PathLike[str]]
    permissions: Permissions = Permissions()
    loading: Loading | None = None
    sync: Sync = Sync()
    follow_symlinks: Literal[True, False, "restricted"] | None = None
    on_permission_denied: Literal["throw", "ignore", "virtual"] = "throw"

    def __post_init__(self) -> None:
        _check(self.permissions, Permissions, "Mount.permissions", 'Permissions({"create": True})')
        if self.loading is not None:
            _check(self.loading, Loading, "Mount.loading", 'Loading("eager")')
        _check(self.sync, Sync, "Mount.sync", 'Sync("manual")')

    def tree(self) -> dict[str, Any]:
        return _given(
            dirs={inside: {"path": os.fspath(outside), "kind": "file"} if os.path.isfile(outside) else os.fspath(outside) for inside, outside in self.dirs.items()},
            permissions=self.permissions.tree(), loading=self.loading and self.loading.tree(), sync=self.sync.tree(),
            security=None if self.follow_symlinks is None else {"followSymlinks": self.follow_symlinks},
            onPermissionDenied=self.on_permission_denied)


def mount_tree(mount: Mount | Mapping[str, Any]) -> dict[str, Any]:
    """A Mount, or the contract's own object unchanged."""
    if isinstance(mount, Mount):
        return mount.tree()
    if isinstance(mount, Mapping):
        return dict(mount)
    raise InvalidArgumentError(f"mount must be a Mount or a mapping, not a {type(mount).__name__}")


def _listed(given: str | Sequence[str]) -> list[str]:
    """A single name is a list of one."""
    return [given] if isinstance(given, str) else list(given)


def _check(given: object, kind: type[object], where: str, example: str) -> None:
    if not isinstance(given, kind):
        raise TypeError(f"{where}: a {kind.__name__} is expected, not a {type(given).__name__}; use {example}")


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
