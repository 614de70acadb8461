"""A backend written with ctypes, for cases that the demo backends do not cover: options of every
kind, and structs without optional members. It copies its first input to its output."""

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, Union, c_bool, c_char_p, c_double, c_int32
from ctypes import c_int64, c_size_t, c_uint16, c_uint32, c_void_p, cast, py_object, pythonapi

OK, NOT_SUPPORTED, NOT_FOUND = 0, 0x10, 0x20
STRING, DOUBLE, INT, BOOL = 2, 3, 4, 5
FIELDS = {STRING: "string", DOUBLE: "d", INT: "i", BOOL: "b"}


class Value(Union):
    _fields_ = [("b", c_bool), ("i", c_int64), ("d", c_double), ("string", c_char_p)]


class Option(Structure):
    _fields_ = [("key", c_char_p), ("kind", c_uint32), ("value", Value)]

    def read(self) -> object:
        return getattr(self.value, FIELDS[self.kind])

    def write(self, value: object) -> None:
        kinds = {bool: BOOL, int: INT, float: DOUBLE, bytes: STRING}
        self.kind = kinds[type(value)]
        setattr(self.value, FIELDS[self.kind], value)


class Init(Structure):
    _fields_ = [
        *(("method", c_char_p), ("payload", c_void_p), ("payload_size", c_size_t)),
        *(("specs", c_void_p), ("spec_count", c_size_t), ("options", POINTER(Option))),
        *(("option_count", c_size_t), ("program", c_void_p)),
    ]


class Tensor(Structure):
    _fields_ = [
        *(("data", c_void_p), ("nbytes", c_size_t), ("capacity", c_size_t), ("dtype", c_int32)),
        *(("rank", c_uint16), ("writable", c_bool), ("sizes", c_void_p), ("strides", c_void_p)),
        ("dim_order", c_void_p),
    ]


class Arg(Structure):
    _fields_ = [("kind", c_uint32), ("tensor", Tensor), ("slot", c_void_p)]


INIT = CFUNCTYPE(c_uint32, c_void_p, c_void_p, c_void_p, POINTER(Init), POINTER(c_void_p))
EXECUTE = CFUNCTYPE(c_uint32, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(Arg), c_size_t)
OPTION = CFUNCTYPE(c_uint32, c_void_p, c_void_p, c_void_p, POINTER(Option))
ADD = CFUNCTYPE(None, c_void_p, c_char_p, c_int64)
REPORT = CFUNCTYPE(None, c_void_p, c_void_p, ADD, c_void_p)


class Backend(Structure):
    _fields_ = [
        *(("abi_version", c_uint32), ("struct_size", c_size_t), ("id", c_char_p)),
        *(("version", c_char_p), ("user", c_void_p), ("is_available", c_void_p)),
        *(("init", INIT), ("execute", EXECUTE), ("destroy", c_void_p), ("set_option", OPTION)),
        *(("get_option", OPTION), ("option_keys", POINTER(c_char_p)), ("report", REPORT)),
    ]


def capsule(struct: Structure, name: bytes = b"executorch_c.backend") -> object:
    """Return a capsule of a struct, which must live as long."""
    new = pythonapi.PyCapsule_New
    new.restype, new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
    return new(ctypes.addressof(struct), name, None)


WITHOUT_OPTIONS: int = Backend.set_option.offset
"""struct_size of a backend without optional members."""


class Fake:
    """The backend and the options that it received. It must live as long as the process."""

    def __init__(self, name: str, values: dict[bytes, object], size: int | None = None) -> None:
        self.values, self.given, self.strings = values, {}, [*values.values()]
        self.execute: Callable[..., int] = self.copy
        keys = (c_char_p * (len(values) + 1))(*values, None)
        self.struct = Backend(
            abi_version=1,
            struct_size=size or ctypes.sizeof(Backend),
            id=name.encode(),
            init=INIT(self._init),
            execute=EXECUTE(lambda *args: self.execute(*args)),
            set_option=OPTION(self._set),
            get_option=OPTION(self._get),
            option_keys=cast(keys, POINTER(c_char_p)),
            report=REPORT(self._report),
        )
        if size:  # out of bounds for the backend: nothing may read it
            ctypes.memset(ctypes.addressof(self.struct) + size, 0x5A, ctypes.sizeof(Backend) - size)
        self.capsule = capsule(self.struct)
        kept.append((self, keys))

    def _init(self, _self: int, _host: int, _call: int, init: object, _handle: object) -> int:
        what = init.contents  # type: ignore[attr-defined]
        self.given = {what.options[i].key: what.options[i].read() for i in range(what.option_count)}
        return OK

    def _set(self, _self: int, _host: int, _call: int, option: object) -> int:
        item = option.contents  # type: ignore[attr-defined]
        if item.key not in self.values:
            return NOT_FOUND
        if item.key == b"fixed":
            return NOT_SUPPORTED
        self.values[item.key] = item.read()
        self.strings.append(self.values[item.key])
        return OK

    def _get(self, _self: int, _host: int, _call: int, option: object) -> int:
        item = option.contents  # type: ignore[attr-defined]
        if item.key not in self.values:
            return NOT_FOUND
        item.write(self.values[item.key])
        return OK

    def _report(self, _self: int, _handle: int, add: Callable[..., None], user: int) -> None:
        add(user, b"options", len(self.given))
        add(user, b"large", 1 << 40)

    @staticmethod
    def copy(_self: int, _host: int, _call: int, _handle: int, args: object, count: int) -> int:
        assert count == 2
        source, target = args[0].tensor, args[1].tensor  # type: ignore[index]
        ctypes.memmove(target.data, source.data, source.nbytes)
        return OK


kept: list[object] = []
