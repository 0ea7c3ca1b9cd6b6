"""A seccomp filter that denies a worker all changes to files, starting programs, and sockets.

SQLite itself changes files while it only reads: beside a database in an odd state it creates,
deletes or chowns a -wal or -journal, whatever mode the database is opened in.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # prctl's
_ALLOW, _DENY = 0x7FFF0000, 0x00050000 | errno.EACCES
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # where struct seccomp_data has them
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # instructions of classic BPF
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class _Machine(NamedTuple):
    """A processor's number, the system calls that are denied, and those that open files.

    The latter have the position of their flags argument beside them.
    """

    number: int
    denied: tuple[int, ...]
    opening: tuple[tuple[int, int], ...]


# io_uring_setup, openat2, fchmodat2, setxattrat, removexattrat, file_setattr
_EVERYWHERE = (425, 437, 452, 463, 466, 469)
_MACHINES = {
    # execve, socket, connect, truncate to creat and links, chmod to lchown, utime, mknod, ...
    "x86_64": _Machine(
        0xC000003E,
        (
            *(59, 322, 41, 42, 101, 76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 132),
            *(133, 188, 189, 190, 197, 198, 199, 235, 258, 259, 260, 261, 263, 264, 265, 266, 268),
            *(280, 285, 316, *_EVERYWHERE),
        ),
        ((2, 1), (257, 2)),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        (
            *(221, 281, 198, 203, 117, 5, 6, 7, 14, 15, 16, 33, 34, 35, 36, 37, 38, 45, 46, 47),
            *(52, 53, 54, 55, 88, 276, *_EVERYWHERE),
        ),
        ((56, 2),),
    ),
}


def deny_changes() -> bool:
    """Have the kernel deny this thread, and those it starts, everything but reading.

    Denied calls fail with EACCES. Returns false where the system has no such filter (only Linux on
    x86-64 and ARM64 has), or Python was built without ctypes; only the connection's rules then
    protect the files.
    """
    machine = _MACHINES.get(os.uname().machine) if sys.platform == "linux" else None
    if machine is None or sys.maxsize < 1 << 32:
        return False
    try:
        import ctypes

        prctl: Callable[..., int] = ctypes.CDLL(None).prctl
    except (ImportError, OSError):  # no ctypes, or no C library
        return False
    program = _program(machine)
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    zero = ctypes.c_ulong(0)
    if prctl(_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        return False
    return prctl(_SECCOMP, ctypes.c_ulong(_FILTER), head, zero, zero) == 0


def _program(machine: _Machine) -> bytes:
    """Return the filter: a list of instructions, each with how many to skip if true, if false."""
    lines = [
        _line(_LOAD, _MACHINE),
        _line(_IF_EQUAL, machine.number, 1, 0),
        _line(_RETURN, _ALLOW),
        _line(_LOAD, _NUMBER),
    ]
    for call in machine.denied:
        lines += [_line(_IF_EQUAL, call, 0, 1), _line(_RETURN, _DENY)]
    for call, flags in machine.opening:
        lines += [
            _line(_IF_EQUAL, call, 0, 4),
            _line(_LOAD, _ARGUMENTS + 8 * flags),
            _line(_IF_ANY_BIT, _CHANGING, 0, 1),
            _line(_RETURN, _DENY),
            _line(_RETURN, _ALLOW),
        ]
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
