"""The C header inferscale/inferscale.h in ctypes: names, order and types of its structs, its numbers, its functions.

The header says what they mean. tests/python_test.py holds every size, offset and number of this file against it.
Addresses are integers (c_void_p): a tensor's data_ptr(), or ctypes.addressof().
"""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

ABI_MAJOR, ABI_MINOR = 0, 1

OK, PENDING = 0, 1
INVALID_ARGUMENT, TOO_LARGE, NOT_FOUND = 100, 104, 105
NO_SPACE, BUSY, UNSUPPORTED, DEVICE_FAILED, INTERNAL = 201, 203, 301, 402, 900
DEVICE_CPU, DEVICE_CUDA = 0, 1
HOST_READ_ONLY = 1
ENCODING_F16, ENCODING_BF16, ENCODING_INT8, ENCODING_INT4 = 1, 2, 3, 4
CACHE_BF16, CACHE_F16, CACHE_FP8_E4M3 = 0, 1, 2
TABLE_F32, TABLE_BF16 = 0, 1
PAIRING_NEOX, PAIRING_INTERLEAVED = 1, 2
NO_ROPE = 0xFFFFFFFF
STAMP_CHANGED_BEFORE, STAMP_CHANGED_AFTER = 1, 2
VECTOR_F16, VECTOR_INT8 = 0, 1
NO_ROW = 0xFFFFFFFF


class Stamp(Structure):
    _fields_ = [("id", c_uint64 * 2), ("version", c_uint64), ("generation", c_uint64)]


class Shape(Structure):
    _fields_ = [("heads", c_uint32), ("layers", c_uint32), ("key_dim", c_uint32), ("value_dim", c_uint32)]


class ArenaRecord(Structure):
    _fields_ = [("stamp", Stamp), ("payload", c_void_p), ("bytes", c_uint64), ("origin", c_void_p)]


class Slot(Structure):
    _fields_ = [("payload", c_void_p), ("stamp", c_void_p)]


class ArenaStatsData(Structure):
    _fields_ = [("struct_bytes", c_uint32), ("reserved", c_uint32), ("budget_bytes", c_uint64),
                ("used_bytes", c_uint64), ("pinned_bytes", c_uint64), ("records", c_uint64), ("hits", c_uint64),
                ("misses", c_uint64), ("loaded_bytes", c_uint64), ("evicted", c_uint64), ("wiped", c_uint64),
                ("refused", c_uint64)]


class Rope(Structure):
    _fields_ = [("rows", c_void_p), ("row_stride", c_uint64), ("positions", c_uint32), ("rotary_dims", c_uint32),
                ("type", c_uint32), ("pairing", c_uint32)]


class Layer(Structure):
    _fields_ = [("base", c_void_p), ("block_stride", c_int64), ("head_stride", c_int64), ("token_stride", c_int64),
                ("key_offset", c_int64), ("value_offset", c_int64), ("key_scale", c_float), ("value_scale", c_float),
                ("record_layer", c_uint32), ("rope", c_uint32), ("group", c_uint32), ("block_size", c_uint32),
                ("blocks_per_entry", c_uint32), ("block_count", c_uint32), ("type", c_uint32), ("reserved", c_uint32)]


class TransferOptions(Structure):
    _fields_ = [("struct_bytes", c_uint32), ("ring", c_uint32), ("max_records", c_uint32), ("max_spans", c_uint32),
                ("max_requests", c_uint32), ("max_tokens", c_uint32), ("max_blocks", c_uint32),
                ("null_block", c_int32), ("shape", Shape), ("layers", POINTER(Layer)), ("ropes", POINTER(Rope)),
                ("layer_count", c_uint32), ("rope_count", c_uint32), ("group_count", c_uint32),
                ("reserved", c_uint32)]


class Record(Structure):
    _fields_ = [("payload", c_void_p), ("payload_bytes", c_uint64), ("stamp", c_void_p), ("origin", c_void_p),
                ("expected", Stamp), ("calibration", c_void_p), ("tokens", c_uint32), ("encoding", c_uint32)]


class Span(Structure):
    _fields_ = [("record", c_uint32), ("record_first", c_uint32), ("tokens", c_uint32), ("position", c_uint32)]


class Request(Structure):
    _fields_ = [("span_first", c_uint32), ("span_count", c_uint32)]


class Table(Structure):
    _fields_ = [("block_first", c_uint32), ("block_count", c_uint32)]


class Batch(Structure):
    _fields_ = [("struct_bytes", c_uint32), ("record_count", c_uint32), ("span_count", c_uint32),
                ("request_count", c_uint32), ("block_count", c_uint32), ("reserved", c_uint32),
                ("records", c_void_p), ("spans", c_void_p), ("requests", c_void_p), ("tables", c_void_p),
                ("blocks", c_void_p)]


class TopkArgs(Structure):
    _fields_ = [("struct_bytes", c_uint32), ("type", c_uint32), ("rows", c_uint32), ("dim", c_uint32),
                ("query_count", c_uint32), ("k", c_uint32), ("vectors", c_void_p), ("vector_stride", c_uint64),
                ("vector_scales", c_void_p), ("mask", c_void_p), ("slots", c_void_p), ("queries", c_void_p),
                ("query_stride", c_uint64), ("query_scales", c_void_p), ("out_scores", c_void_p),
                ("out_rows", c_void_p), ("out_slots", c_void_p)]


# Handles are numbers to us.
_H = c_void_p
_OUT = POINTER(c_void_p)
_WORDS = [_H, c_uint64, c_void_p, c_uint32]

# name: (result, arguments). What returns c_int32 and is not has_cuda is a status.
FUNCTIONS = {
    "abi_version": (c_uint32, []),
    "version": (c_char_p, []),
    "status_name": (c_char_p, [c_int32]),
    "last_error": (c_char_p, []),
    "has_cuda": (c_int32, []),
    "device_open": (c_int32, [c_uint32, c_int32, _OUT]),
    "device_close": (c_int32, [_H]),
    "host_register": (c_int32, [_H, c_void_p, c_uint64, c_uint32]),
    "host_unregister": (c_int32, [_H, c_void_p]),
    "payload_bytes": (c_int32, [POINTER(Shape), c_uint32, c_uint32, POINTER(c_uint64)]),
    "arena_open": (c_int32, [_H, c_uint64, c_void_p, _OUT]),
    "arena_close": (c_int32, [_H]),
    "arena_acquire": (c_int32, [_H, POINTER(ArenaRecord), c_uint32, POINTER(Slot), _OUT]),
    "lease_release": (c_int32, [_H]),
    "arena_prefetch": (c_int32, [_H, POINTER(ArenaRecord), c_uint32]),
    "arena_evict": (c_int32, [_H, POINTER(c_uint64), POINTER(c_uint32)]),
    "arena_clear": (c_int32, [_H, POINTER(c_uint32)]),
    "arena_finish": (c_int32, [_H]),
    "arena_stats": (c_int32, [_H, POINTER(ArenaStatsData)]),
    "transfer_open": (c_int32, [_H, POINTER(TransferOptions), _OUT]),
    "transfer_close": (c_int32, [_H]),
    "inject": (c_int32, [_H, POINTER(Batch), c_void_p, POINTER(c_uint64)]),
    "extract": (c_int32, [_H, POINTER(Batch), c_void_p, POINTER(c_uint64)]),
    "transfer_poll": (c_int32, _WORDS),
    "transfer_wait": (c_int32, _WORDS),
    "topk_workspace_bytes": (c_int32, [_H, POINTER(TopkArgs), POINTER(c_uint64)]),
    "topk": (c_int32, [_H, POINTER(TopkArgs), c_void_p, c_uint64, c_void_p]),
}


def declare(library):
    """Gives the functions of a ctypes.CDLL their types."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, "inferscale_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def sized(struct, **fields):
    """A struct that begins with its size."""
    return struct(struct_bytes=ctypes.sizeof(struct), **fields)
