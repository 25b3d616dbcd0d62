"""Finds and loads libinferscale.so, and turns its status numbers into exceptions."""

import ctypes
import functools
import os

from . import abi


class Error(Exception):
    """status: one of abi's numbers. The text is the library's: what is wrong and what to do."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


@functools.cache
def load():
    """The library that INFERSCALE_LIBRARY names, or that lies in this folder, or that the system finds."""
    name = f"libinferscale.so.{abi.ABI_MAJOR}"
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    path = os.environ.get("INFERSCALE_LIBRARY") or (beside if os.path.exists(beside) else name)
    try:
        library = ctypes.CDLL(path)  # releases Python's lock during calls
    except OSError as error:
        raise OSError(f"{error}: name the library with the environment variable INFERSCALE_LIBRARY") from error
    library.inferscale_abi_version.restype = ctypes.c_uint32
    major, minor = divmod(library.inferscale_abi_version(), 65536)
    if major != abi.ABI_MAJOR or minor < abi.ABI_MINOR:
        raise Error(abi.UNSUPPORTED, f"{path} has ABI {major}.{minor}, but {abi.ABI_MAJOR}.{abi.ABI_MINOR} is needed")
    return abi.declare(library)


def check(status):
    """OK or PENDING; raises everything else."""
    if status not in (abi.OK, abi.PENDING):
        raise Error(status, load().inferscale_last_error().decode())
    return status
