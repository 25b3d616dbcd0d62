"""Devices, arenas and transfers as objects. Streams are integers (torch's stream.cuda_stream), 0 on the CPU. Errors of
the library are raised as Error; the header says what each function does, and which threads may call it."""

import ctypes

from . import abi
from .loader import check, load


class _Handle:
    """Closed by close(), at the end of a with block, or when it is collected."""

    _close = None

    def _open(self, function, *arguments):
        self.handle = None
        handle = ctypes.c_void_p()
        check(getattr(load(), function)(*arguments, ctypes.byref(handle)))
        self.handle = handle.value

    def close(self):
        handle, self.handle = self.handle, None
        if handle is not None:
            check(getattr(load(), self._close)(handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "handle", None) is not None and load is not None:
            getattr(load(), self._close)(self.handle)


def has_cuda():
    return bool(load().inferscale_has_cuda())


def payload_bytes(shape, tokens, encoding):
    count = ctypes.c_uint64()
    check(load().inferscale_payload_bytes(ctypes.byref(shape), tokens, encoding, ctypes.byref(count)))
    return count.value


class Device(_Handle):
    _close = "inferscale_device_close"

    def __init__(self, kind=abi.DEVICE_CUDA, ordinal=0):
        self._open("inferscale_device_open", kind, ordinal)

    def register_host(self, address, size, read_only=False):
        check(load().inferscale_host_register(self.handle, address, size, abi.HOST_READ_ONLY if read_only else 0))

    def unregister_host(self, address):
        check(load().inferscale_host_unregister(self.handle, address))

    def topk_workspace_bytes(self, args):
        count = ctypes.c_uint64()
        check(load().inferscale_topk_workspace_bytes(self.handle, ctypes.byref(args), ctypes.byref(count)))
        return count.value

    def topk(self, args, workspace=0, workspace_bytes=0, stream=0):
        check(load().inferscale_topk(self.handle, ctypes.byref(args), workspace, workspace_bytes, stream))


class Lease(_Handle):
    """slots[i].payload and .stamp: where the record that was asked for is; payload None: there was no room."""

    _close = "inferscale_lease_release"

    def __init__(self, arena, records):
        self.slots = (abi.Slot * len(records))()
        self._open("inferscale_arena_acquire", arena.handle, records, len(records), self.slots)


class Arena(_Handle):
    """records of the functions below: an array of abi.ArenaRecord, (abi.ArenaRecord * n)(…)."""

    _close = "inferscale_arena_close"

    def __init__(self, device, size, stream=0):
        self._open("inferscale_arena_open", device.handle, size, stream)

    def acquire(self, records):
        return Lease(self, records)

    def prefetch(self, records):
        check(load().inferscale_arena_prefetch(self.handle, records, len(records)))

    def evict(self, first, second):
        gone = ctypes.c_uint32()
        check(load().inferscale_arena_evict(self.handle, (ctypes.c_uint64 * 2)(first, second), ctypes.byref(gone)))
        return bool(gone.value)

    def clear(self):
        gone = ctypes.c_uint32()
        check(load().inferscale_arena_clear(self.handle, ctypes.byref(gone)))
        return bool(gone.value)

    def finish(self):
        check(load().inferscale_arena_finish(self.handle))

    def stats(self):
        data = abi.sized(abi.ArenaStatsData)
        check(load().inferscale_arena_stats(self.handle, ctypes.byref(data)))
        return {name: getattr(data, name) for name, _ in data._fields_[2:]}


class Transfer(_Handle):
    _close = "inferscale_transfer_close"

    def __init__(self, device, shape, layers, ropes=(), *, groups=1, null_block=-1, ring=16, max_records=4096,
                 max_spans=4096, max_requests=256, max_tokens=131072, max_blocks=65536):
        options = abi.sized(
            abi.TransferOptions, ring=ring, max_records=max_records, max_spans=max_spans, max_requests=max_requests,
            max_tokens=max_tokens, max_blocks=max_blocks, null_block=null_block, shape=shape,
            layers=(abi.Layer * len(layers))(*layers), ropes=(abi.Rope * len(ropes))(*ropes),
            layer_count=len(layers), rope_count=len(ropes), group_count=groups)
        self._counts = {}  # ticket: records
        self._open("inferscale_transfer_open", device.handle, ctypes.byref(options))

    def inject(self, batch, stream=0):
        """The ticket. Error with status abi.BUSY: the ring is full, poll or wait for the oldest ticket."""
        return self._launch(load().inferscale_inject, batch, stream)

    def extract(self, batch, stream=0):
        return self._launch(load().inferscale_extract, batch, stream)

    def poll(self, ticket):
        """The records' status words when the launch has ended, else None. A ticket is good for one answer."""
        return self._collect(load().inferscale_transfer_poll, ticket)

    def wait(self, ticket):
        return self._collect(load().inferscale_transfer_wait, ticket)

    def _launch(self, function, batch, stream):
        ticket = ctypes.c_uint64()
        check(function(self.handle, ctypes.byref(batch.struct()), stream, ctypes.byref(ticket)))
        self._counts[ticket.value] = batch.record_count
        return ticket.value

    def _collect(self, function, ticket):
        count = self._counts.get(ticket, 0)
        words = (ctypes.c_uint32 * count)()
        status = function(self.handle, ticket, words if count else None, count)
        if status == abi.PENDING:
            return None
        self._counts.pop(ticket, None)
        check(status)
        return list(words)
