"""The engine's C API, ddl.h, for numpy arrays: what the example needs of it."""
import ctypes
import ctypes.util
import os

import numpy

_TYPES = {numpy.dtype(name): number for number, name in enumerate(
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16"])}
_TYPES.update({numpy.dtype("float32"): 10, numpy.dtype("float64"): 11})  # 9 is bfloat16, which numpy has not
_ALL_REDUCE, _SUM = 0, 0


class _Call(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("input", ctypes.c_void_p),
                ("output", ctypes.c_void_p), ("count", ctypes.c_uint64), ("type", ctypes.c_int),
                ("op", ctypes.c_int), ("root", ctypes.c_int32)]


def _load():
    """From DDL_LIBRARY, or where the system finds libddl.so."""
    library = ctypes.CDLL(os.environ.get("DDL_LIBRARY") or ctypes.util.find_library("ddl") or "libddl.so")
    library.ddl_error_message.restype = ctypes.c_char_p
    return library


class Error(RuntimeError):
    """One line that says what was wrong and what to do."""


class Group:
    """The ranks of the job. Collectives work in place, on contiguous arrays."""

    def __init__(self):
        self._library, self._handle = _load(), ctypes.c_void_p()
        self._check(self._library.ddl_init(None, ctypes.byref(self._handle)))
        self.rank = self._library.ddl_rank(self._handle)
        self.size = self._library.ddl_size(self._handle)

    def sum(self, array):
        """All-reduce; returns when the array holds the sum over all ranks."""
        call = self._call(array)
        self._check(self._library.ddl_run(ctypes.byref(call), self._handle))

    def start_sum(self, array):
        """The same in the background: returns what wait() wants."""
        request, call = ctypes.c_void_p(), self._call(array)
        self._check(self._library.ddl_start(ctypes.byref(call), self._handle, ctypes.byref(request)))
        return request

    def wait(self, request):
        self._check(self._library.ddl_wait(ctypes.byref(request)))

    def broadcast(self, array, root=0):
        self._check(self._library.ddl_broadcast(
            ctypes.c_void_p(array.ctypes.data), ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(array.size),
            _TYPES[array.dtype], root, self._handle))

    def finalize(self):
        self._check(self._library.ddl_finalize(self._handle))

    def _call(self, array):
        assert array.flags.c_contiguous
        return _Call(ctypes.sizeof(_Call), _ALL_REDUCE, array.ctypes.data, array.ctypes.data, array.size,
                     _TYPES[array.dtype], _SUM, 0)

    def _check(self, status):
        if status:
            raise Error(self._library.ddl_error_message().decode())
