"""Where the blocks lie, and how files are opened, written and listed there.

    <directory>/<model: 16 hex>/<namespace: 32 hex>/<2 hex>/<key: 32 hex>.kv

Directories 0700, files 0600. Below the directory nothing is reached through a symbolic link, and every name is made of
hex digits, so nothing outside of it is ever read or written.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".kv"
PAGE = 4096
"""What a directory is charged, and the grain of a file's charge."""

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_LEVELS = (re.compile(r"[0-9a-f]{16}"), re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{2}"))
_BLOCK, _TEMPORARY = re.compile(r"[0-9a-f]{32}\.kv"), re.compile(r"[0-9a-f]{16}\.tmp")


class Unusable(OSError):
    """Something of the wrong kind lies where a block's file should be."""


@frozen
class Place:
    """A file below the directory: its folders and its name."""

    model: str
    namespace: str
    folder: str
    name: str

    @property
    def folders(self) -> tuple[str, str, str]:
        return self.model, self.namespace, self.folder

    def __str__(self) -> str:
        return "/".join((*self.folders, self.name))


@frozen
class Found:
    """A block's file or a writer's temporary one, as a scan sees it. `charge`: bytes of budget."""

    place: Place
    size: int
    mtime_ns: int

    @property
    def charge(self) -> int:
        return charge(self.size)

    @property
    def is_temporary(self) -> bool:
        return not self.place.name.endswith(SUFFIX)


def charge(size: int) -> int:
    """Bytes of budget that a file of this size costs: whole pages."""
    return -(-size // PAGE) * PAGE


def namespace_tag(namespace: str) -> str:
    """The folder of a namespace: never its name."""
    return blake2b(namespace.encode(), digest_size=16, person=b"reame.namespace").hexdigest()


def place_of(key: bytes, *, model: str, namespace: str) -> Place:
    name = key.hex()
    return Place(model, namespace, name[:2], name + SUFFIX)


@contextmanager
def opened(root: Path | int, *names: str) -> Iterator[int]:
    """A descriptor of the folder that lies `names` deep below `root`. OSError when it is not there, or not a folder."""
    folder = os.dup(root) if isinstance(root, int) else os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            try:
                below = os.open(name, _OPEN_DIRECTORY, dir_fd=folder)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise NotADirectoryError(errno.ENOTDIR, "a symbolic link", name) from None
                raise
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def ensure(root: int, *names: str) -> int:
    """Make the folders that are missing, in the place of whatever else has their name. How many were made."""
    with suppress(OSError), opened(root, *names):
        return 0
    made = 0
    for depth, name in enumerate(names):
        with opened(root, *names[:depth]) as folder:
            try:
                os.mkdir(name, 0o700, dir_fd=folder)
                made += 1
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=folder)
                    os.mkdir(name, 0o700, dir_fd=folder)
                    made += 1
    return made


def ensure_root(path: Path) -> None:
    """Make the directory itself; one that exists is used as it is. OSError when there can be none."""
    try:
        path.mkdir(0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        path.mkdir(0o700, exist_ok=True)


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of a regular file for reading, and what it is. Unusable when it is anything else; OSError."""
    try:
        file = os.open(name, _OPEN_FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Unusable(error.errno, "not a file") from None
        raise
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise Unusable(0, "not a file")
        yield file, facts
    finally:
        os.close(file)


def read_all(file: int, size: int) -> bytes:
    """Up to `size` bytes: fewer when the file has become shorter."""
    data = os.read(file, size)
    while len(data) < size and (more := os.read(file, size - len(data))):
        data += more
    return data


def write_new(folder: int, name: str, data: bytes, *, mtime_ns: int) -> None:
    """A file appears whole or not at all. OSError."""
    temporary = f"{secrets.token_hex(8)}.tmp"
    file = os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.utime(file, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def scan(root: int, *below: str) -> Iterator[Found]:
    """All files of ours below `root`, or below a model, or below a namespace of it. In no order; the vanished have
    none, and whatever else lies there is passed over."""
    if len(below) < len(_LEVELS):
        for name in folders(root, *below):
            yield from scan(root, *below, name)
        return
    model, namespace, folder = below
    for name, facts in _listed(root, *below):
        if (_BLOCK.fullmatch(name) or _TEMPORARY.fullmatch(name)) and stat.S_ISREG(facts.st_mode):
            yield Found(Place(model, namespace, folder, name), facts.st_size, facts.st_mtime_ns)


def folders(root: int, *below: str) -> list[str]:
    """Names of the folders of ours, one level down."""
    level = _LEVELS[len(below)]
    return [name for name, facts in _listed(root, *below) if level.fullmatch(name) and stat.S_ISDIR(facts.st_mode)]


def remove_empty(root: int, *below: str) -> int:
    """Remove the folders of ours that hold nothing: a writer that wanted one makes it again. How many are left."""
    left = 0
    for name in folders(root, *below):
        inside = remove_empty(root, *below, name) if len(below) + 1 < len(_LEVELS) else 0
        try:
            with opened(root, *below) as folder:
                os.rmdir(name, dir_fd=folder)
        except OSError:
            left += inside + 1
    return left


def _listed(root: int, *below: str) -> Iterator[tuple[str, os.stat_result]]:
    """A listing is taken as a whole: directories may change while one looks at what is in them."""
    items: list[os.DirEntry[str]] = []
    with suppress(OSError), opened(root, *below) as folder:
        with os.scandir(folder) as listing:
            items = list(listing)
        for item in items:
            with suppress(OSError):
                yield item.name, item.stat(follow_symlinks=False)


def remove(root: int, place: Place) -> bool:
    """Whether the file was there and is gone. A folder in its place goes only when it is empty."""
    try:
        with opened(root, *place.folders) as folder:
            try:
                os.unlink(place.name, dir_fd=folder)
            except IsADirectoryError:
                os.rmdir(place.name, dir_fd=folder)
    except OSError:
        return False
    return True
