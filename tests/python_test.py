#!/usr/bin/env python3
"""python_test.py COMPILER LIBRARY: the Python package against the C header, and a step of an engine on the CPU."""

import contextlib
import ctypes
import io
import math
import os
import re
import struct
import sys
import threading
import unittest

sys.dont_write_bytecode = True
import abi_header

COMPILER, os.environ["INFERSCALE_LIBRARY"] = sys.argv[1:3]
sys.path.insert(0, os.path.join(abi_header.ROOT, "python"))
import inferscale
from inferscale import abi

HEADS, LAYERS, DIM, BLOCKS, BLOCK = 2, 2, 8, 6, 4
SHAPE = abi.Shape(HEADS, LAYERS, DIM, DIM)


class Mirror(unittest.TestCase):
    """abi.py is the header."""

    @classmethod
    def setUpClass(cls):
        cls.header = abi_header.read()
        cls.lines = [line.split(" ") for line in cls.header.layout(COMPILER)]

    @staticmethod
    def mirrored(struct_name):
        return getattr(abi, "".join(part.title() for part in struct_name.split("_")[1:]))

    def test_version(self):
        self.assertEqual((abi.ABI_MAJOR, abi.ABI_MINOR), self.header.version)

    def test_numbers(self):
        values = {name: int(value) for kind, name, value in (line[:3] for line in self.lines if line[0] == "value")}
        self.assertGreater(len(values), 25)
        for name, value in values.items():
            self.assertEqual(getattr(abi, name.removeprefix("INFERSCALE_")), value, name)

    def test_structs(self):
        sizes = {line[1]: int(line[2]) for line in self.lines if line[0] == "size"}
        self.assertGreater(len(sizes), 10)
        for name, size in sizes.items():
            mirror = self.mirrored(name)
            self.assertEqual(ctypes.sizeof(mirror), size, name)
            fields = [field.split("[")[0] for _, field in self.header.structs[name]]
            self.assertEqual([field for field, _ in mirror._fields_], fields, name)

    def test_fields(self):
        kinds = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64,
                 "int64_t": ctypes.c_int64, "float": ctypes.c_float}
        for _, name, offset, size, *kind in (line for line in self.lines if line[0] == "field"):
            struct_name, field = name.split(".")
            mirror = self.mirrored(struct_name)
            at = getattr(mirror, field)
            self.assertEqual((at.offset, at.size), (int(offset), int(size)), name)
            expected = kinds.get(" ".join(kind))
            if expected is not None and int(size) == ctypes.sizeof(expected):
                self.assertIs(dict(mirror._fields_)[field], expected, name)

    def test_functions(self):
        self.assertEqual({"inferscale_" + name for name in abi.FUNCTIONS}, set(self.header.functions))
        plain = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64,
                 "inferscale_status": ctypes.c_int32, "const char*": ctypes.c_char_p}
        for name, (result, arguments) in abi.FUNCTIONS.items():
            prototype = self.header.functions["inferscale_" + name]
            returns, inside = re.fullmatch(r"(.*?) ?inferscale_\w+\((.*)\)", prototype).groups()
            self.assertIs(result, plain[returns], prototype)
            given = [] if inside == "void" else [p.strip() for p in inside.split(",")]
            self.assertEqual(len(arguments), len(given), prototype)
            for argument, parameter in zip(arguments, given):
                kind = plain.get(parameter.rsplit(" ", 1)[0])
                if kind is None or "[" in parameter:  # an address
                    self.assertTrue("*" in parameter or "[" in parameter, parameter)
                    self.assertTrue(argument is ctypes.c_void_p or issubclass(argument, ctypes._Pointer), parameter)
                else:
                    self.assertIs(argument, kind, parameter)


class Memory:
    """Bytes at a 64-byte aligned address."""

    def __init__(self, size):
        self.size = size
        self._bytes = (ctypes.c_uint8 * (size + 64))()
        self._skip = -ctypes.addressof(self._bytes) % 64
        self.address = ctypes.addressof(self._bytes) + self._skip

    def put(self, code, at, *values):
        struct.pack_into("<" + code, self._bytes, self._skip + at, *values)

    def get(self, code, at):
        return struct.unpack_from("<" + code, self._bytes, self._skip + at)


class Tensor:
    """What the package asks of a torch tensor."""

    def __init__(self, address, shape, strides, size, dtype):
        self._address, self.shape, self._strides, self._size, self.dtype = address, shape, strides, size, dtype

    def data_ptr(self):
        return self._address

    def stride(self, i):
        return self._strides[i]

    def element_size(self):
        return self._size


def row_at(tokens, head, layer, token, key):
    """Offset of a row in a record's payload: [head][layer][K then V][token][dim], f16."""
    return (((head * LAYERS + layer) * 2 + (0 if key else 1)) * tokens + token) * DIM * 2


class Engine:
    """A cache of the packed layout, a rope table, and two records with stamps in host memory."""

    tokens = (5, 3)

    def __init__(self):
        self.cache = [Memory(BLOCKS * HEADS * BLOCK * 2 * DIM * 2) for _ in range(LAYERS)]
        self.table = Memory(64 * DIM * 4)
        for position in range(64):
            angles = [position * 100 ** (-i / (DIM // 2)) for i in range(DIM // 2)]
            self.table.put(f"{DIM}f", position * DIM * 4, *map(math.cos, angles), *map(math.sin, angles))
        self.records = []
        for i, tokens in enumerate(self.tokens):
            record = Memory(256 + inferscale.payload_bytes(SHAPE, tokens, abi.ENCODING_F16))
            record.put("4Q", 0, i + 1, 7, 1, i + 10)
            for n in range((record.size - 256) // 2):
                record.put("e", 256 + 2 * n, ((n * 37 + i * 11) % 101 - 50) / 16)
            self.records.append(record)

    def layers(self):
        strides = (HEADS * BLOCK * 2 * DIM, BLOCK * 2 * DIM, 2 * DIM, 1)
        for number, cache in enumerate(self.cache):
            keys, values = (Tensor(cache.address + part * DIM * 2, (BLOCKS, HEADS, BLOCK, DIM), strides, 2,
                                   "torch.float16") for part in (0, 1))
            yield inferscale.layer(keys, values, "bhnd", record_layer=number, rope=0)

    def transfer(self, device, **options):
        rope = inferscale.rope(Tensor(self.table.address, (64, DIM), (DIM, 1), 4, "torch.float32"))
        return inferscale.Transfer(device, SHAPE, list(self.layers()), [rope], null_block=0, **options)

    def arena_records(self):
        stamps = [inferscale.Stamp.from_address(record.address) for record in self.records]
        return (inferscale.ArenaRecord * 2)(*(
            inferscale.ArenaRecord(stamp, record.address + 256, (record.size - 256) // 16 * 16, record.address)
            for stamp, record in zip(stamps, self.records)))

    def batch(self, payloads, stamps):
        """Both records behind each other, from position 2 on, in blocks 4, 1 and 3."""
        batch = inferscale.Batch()
        for i, tokens in enumerate(self.tokens):
            batch.add_record(payloads[i], self.records[i].size - 256, tokens, abi.ENCODING_F16, stamp=stamps[i],
                             expected=self.records[i].get("4Q", 0) if stamps[i] else (0, 0, 0, 0))
        batch.add_request([(0, 0, 5, 2), (1, 0, 3, 7)], [[4, 1, 3]])
        return batch

    def cache_row(self, layer, head, position, key):
        block = (4, 1, 3)[position // BLOCK]
        at = ((block * HEADS + head) * BLOCK + position % BLOCK) * 2 * DIM + (0 if key else DIM)
        return self.cache[layer].get(f"{DIM}e", 2 * at)

    def expected_row(self, record, layer, head, token, position, key):
        row = self.records[record].get(f"{DIM}e", 256 + row_at(self.tokens[record], head, layer, token, key))
        if not key:
            return row
        table = self.table.get(f"{DIM}f", position * DIM * 4)
        half = DIM // 2
        turned = [0.0] * DIM
        for i in range(half):
            cos, sin = table[i], table[half + i]
            turned[i] = row[i] * cos - row[half + i] * sin
            turned[half + i] = row[half + i] * cos + row[i] * sin
        return turned

    def places(self):
        for record, first in ((0, 2), (1, 7)):
            for token in range(self.tokens[record]):
                for layer in range(LAYERS):
                    for head in range(HEADS):
                        yield record, layer, head, token, first + token


class Step(unittest.TestCase):
    def setUp(self):
        self.device = inferscale.Device(abi.DEVICE_CPU)
        self.engine = Engine()

    def check_cache(self):
        for record, layer, head, token, position in self.engine.places():
            for key in (True, False):
                got = self.engine.cache_row(layer, head, position, key)
                want = self.engine.expected_row(record, layer, head, token, position, key)
                for a, b in zip(got, want):
                    self.assertLessEqual(abs(a - b), abs(b) * 2 ** -10 + 1e-6)  # one rounding to f16

    def test_arena_inject_and_extract(self):
        engine = self.engine
        with inferscale.Arena(self.device, 1 << 20) as arena, engine.transfer(self.device) as transfer:
            with arena.acquire(engine.arena_records()) as lease:
                slots = lease.slots
                ticket = transfer.inject(engine.batch([s.payload for s in slots], [s.stamp for s in slots]))
            self.assertEqual(transfer.wait(ticket), [0, 0])
            self.check_cache()
            self.assertEqual(arena.stats()["records"], 2)
            self.assertTrue(arena.evict(1, 7))
            self.assertTrue(arena.clear())
            self.assertEqual(arena.stats()["wiped"], 2)

            back = [Memory(record.size) for record in engine.records]
            ticket = transfer.extract(engine.batch([memory.address + 256 for memory in back], [0, 0]))
            self.assertEqual(transfer.poll(ticket), [0, 0])
            for record, memory in zip(engine.records, back):
                for at in range(256, record.size, 2):
                    (a,), (b,) = memory.get("e", at), record.get("e", at)
                    self.assertLessEqual(abs(a - b), 0.02)  # rounded twice: values are up to 3.2, steps 2^-9

    def test_a_changed_stamp_is_reported(self):
        engine = self.engine
        batch = engine.batch([r.address + 256 for r in engine.records], [r.address for r in engine.records])
        engine.records[1].put("Q", 24, 99)
        with engine.transfer(self.device) as transfer:
            words = transfer.wait(transfer.inject(batch))
        self.assertEqual(words, [0, abi.STAMP_CHANGED_BEFORE | abi.STAMP_CHANGED_AFTER])

    def test_a_full_ring(self):
        engine = self.engine
        batch = engine.batch([r.address + 256 for r in engine.records], [0, 0])
        with engine.transfer(self.device, ring=1) as transfer:
            ticket = transfer.inject(batch)
            with self.assertRaisesRegex(inferscale.Error, "ring is full") as caught:
                transfer.inject(batch)
            self.assertEqual(caught.exception.status, abi.BUSY)
            transfer.wait(ticket)
            batch.clear()
            self.assertEqual(transfer.wait(transfer.inject(batch)), [])
            with self.assertRaises(inferscale.Error):
                transfer.poll(ticket)

    def test_threads(self):
        engine, failures = self.engine, []
        with engine.transfer(self.device, ring=2) as transfer:
            def work():
                batch = engine.batch([r.address + 256 for r in engine.records], [0, 0])
                for _ in range(50):
                    if transfer.wait(transfer.inject(batch)) != [0, 0]:
                        failures.append(1)
            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.check_cache()

    def test_topk(self):
        vectors, query = Memory(3 * 16), Memory(16)
        for row, values in enumerate(([1, 2], [3, -4], [5, 6])):
            vectors.put("2b", row * 16, *values)
        query.put("2b", 0, 2, 1)
        scores, rows = (ctypes.c_float * 2)(), (ctypes.c_uint32 * 2)()
        args = abi.sized(abi.TopkArgs, type=abi.VECTOR_INT8, rows=3, dim=2, query_count=1, k=2,
                         vectors=vectors.address, vector_stride=16, queries=query.address, query_stride=16,
                         out_scores=ctypes.addressof(scores), out_rows=ctypes.addressof(rows))
        self.assertEqual(self.device.topk_workspace_bytes(args), 0)
        self.device.topk(args)
        self.assertEqual((list(rows), list(scores)), ([2, 0], [16.0, 4.0]))


class Documentation(unittest.TestCase):
    def test_the_example_prints_what_it_says(self):
        with open(os.path.join(abi_header.ROOT, "docs", "c_abi.md"), encoding="utf-8") as file:
            page = file.read()
        code, printed = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", page, re.DOTALL).groups()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, {})
        self.assertEqual(output.getvalue(), printed)


class Errors(unittest.TestCase):
    def test_devices(self):
        with self.assertRaises(inferscale.Error) as caught:
            inferscale.Device(abi.DEVICE_CUDA, 100)
        self.assertEqual(caught.exception.status, abi.UNSUPPORTED)
        with self.assertRaisesRegex(inferscale.Error, "kind"):
            inferscale.Device(9)
        device = inferscale.Device(abi.DEVICE_CPU)
        memory = Memory(64)
        device.register_host(memory.address, 64, read_only=True)
        device.unregister_host(memory.address)
        device.close()
        device.close()
        with self.assertRaisesRegex(inferscale.Error, "device is null"):
            inferscale.Arena(device, 1 << 20)

    def test_views_that_are_no_cache(self):
        def view(strides=(64, 32, 8, 1), shape=(4, 2, 4, 8), dtype="torch.float16"):
            return Tensor(4096, shape, strides, 2, dtype)

        inferscale.layer(view(), view(), "bhnd", record_layer=0)
        for keys, values, dims, words in (
                (view(), view(), "bhn", "dims"), (view(), view((64, 32, 16, 1)), "bhnd", "same strides"),
                (view((64, 32, 1, 8)), view((64, 32, 1, 8)), "bhnd", "contiguous"),
                (view(), view(shape=(3, 2, 4, 8)), "bhnd", "different blocks"),
                (view(dtype="torch.float32"), view(), "bhnd", "float32")):
            with self.assertRaisesRegex(ValueError, words):
                inferscale.layer(keys, values, dims, record_layer=0)

    def test_layouts(self):
        """Blocks first (B, 2, N, H, D): strides and offsets in bytes."""
        strides = (2 * BLOCK * HEADS * DIM, HEADS * DIM, DIM, 1)
        keys = Tensor(4096, (BLOCKS, BLOCK, HEADS, DIM), strides, 2, "torch.bfloat16")
        values = Tensor(4096 + BLOCK * HEADS * DIM * 2, (BLOCKS, BLOCK, HEADS, DIM), strides, 2, "torch.bfloat16")
        layer = inferscale.layer(keys, values, "bnhd", record_layer=3, group=1, blocks_per_entry=2)
        self.assertEqual((layer.base, layer.block_stride, layer.token_stride, layer.head_stride),
                         (4096, 2 * BLOCK * HEADS * DIM * 2, HEADS * DIM * 2, DIM * 2))
        self.assertEqual((layer.key_offset, layer.value_offset), (0, BLOCK * HEADS * DIM * 2))
        self.assertEqual((layer.block_size, layer.block_count, layer.record_layer, layer.group, layer.rope, layer.type),
                         (BLOCK, BLOCKS, 3, 1, abi.NO_ROPE, abi.CACHE_BF16))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
