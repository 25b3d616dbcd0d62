#!/usr/bin/env python3
"""abi_test.py COMPILER LIBRARY: the header against tests/data/abi_MAJOR.txt, and the library against the header.

abi_test.py --accept COMPILER writes the baseline anew after an addition with a larger minor, or for a new major.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import abi_header

COMPILER, LIBRARY = (sys.argv[1:] + ["", ""])[:2]


def baseline_path(header):
    return os.path.join(abi_header.ROOT, "tests", "data", f"abi_{header.version[0]}.txt")


def read_baseline(header):
    with open(baseline_path(header), encoding="utf-8") as file:
        return file.read().splitlines()


def accept(compiler):
    header = abi_header.read()
    new = header.baseline(compiler)
    wrong = abi_header.compare(read_baseline(header), new) if os.path.exists(baseline_path(header)) else []
    if wrong:
        sys.exit("\n".join(wrong))
    with open(baseline_path(header), "w", encoding="utf-8") as file:
        file.write("\n".join(new) + "\n")


class Baseline(unittest.TestCase):
    def test_header_is_the_baseline(self):
        header = abi_header.read()
        old, new = read_baseline(header), header.baseline(COMPILER)
        wrong = abi_header.compare(old, new)
        if wrong:
            self.fail("\n" + "\n".join(wrong))
        self.assertEqual(old, new, f"only additions: accept them with  python3 tests/abi_test.py --accept {COMPILER}")

    def test_it_knows_all_of_the_header(self):
        header = abi_header.read()
        bare = re.sub(r"//[^\n]*", "", header.text)
        names = set(re.findall(r"\binferscale_\w+", bare)) - {"inferscale_status", "inferscale_status_code"}
        enums = set(re.findall(r"enum (\w+) \{", bare))
        opaque = set(re.findall(r"typedef struct (\w+) \1;", bare))
        self.assertEqual(names - enums - opaque, set(header.structs) | set(header.functions))
        constants = set(re.findall(r"\bINFERSCALE_\w+", bare)) - abi_header.NOT_THE_ABI
        self.assertEqual(constants, set(header.constants))
        fields = sum(len(fields) for fields in header.structs.values())
        self.assertEqual(fields, len(re.findall(r"^  [\w \*]+[ \*]\w+(?:\[\d+\])?;", bare, re.MULTILINE)))

    # Each change to the header, and whether it is found to be one.
    def expect(self, change, words):
        header = abi_header.read()
        text = change(header.text)
        self.assertNotEqual(text, header.text)
        wrong = abi_header.compare(header.baseline(COMPILER), abi_header.Header(text).baseline(COMPILER))
        if words is None:
            self.assertEqual(wrong, [])
        else:
            self.assertIn(words, "\n".join(wrong))

    def test_a_moved_field_is_found(self):
        first, second = "  uint32_t record_first;\n", "  uint32_t tokens;\n  uint32_t position;\n"
        self.expect(lambda text: text.replace(first + second, second + first), "changed: field inferscale_span.tokens")

    def test_a_changed_number_is_found(self):
        self.expect(lambda text: text.replace("INFERSCALE_BUSY = 203", "INFERSCALE_BUSY = 204"),
                    "changed: value INFERSCALE_BUSY")

    def test_a_changed_prototype_is_found(self):
        self.expect(lambda text: text.replace("int32_t ordinal", "uint32_t ordinal"), "changed: function")

    def test_a_field_more_in_a_struct_of_fixed_size_is_found(self):
        self.expect(lambda text: text.replace("  uint32_t position;\n", "  uint32_t position;\n  uint32_t more;\n"),
                    "changed: size inferscale_span")

    def test_an_addition_needs_a_minor(self):
        def add(text):
            return text.replace("} inferscale_batch;", "  uint64_t more;\n} inferscale_batch;")

        self.expect(add, "An addition raises")
        self.expect(lambda text: re.sub(r"(ABI_MINOR) \d+", r"\1 99", add(text)), None)

    def test_a_new_major_may_do_anything(self):
        self.expect(lambda text: re.sub(r"(ABI_MAJOR) \d+", r"\1 99", text.replace("int32_t ordinal", "int ordinal")),
                    None)


CALLER = """
#include "inferscale/inferscale.h"
int main(void) {
  inferscale_device* device = 0;
  if (inferscale_abi_version() >> 16 != INFERSCALE_ABI_MAJOR) return 1;
  if (inferscale_device_open(INFERSCALE_DEVICE_CPU, 0, &device) != INFERSCALE_OK) return 2;
  return inferscale_device_close(device);
}
"""
CALLER_HPP = """
#include "inferscale/inferscale.hpp"
int main() {
  inferscale::api::Device device;
  return inferscale_device_open(INFERSCALE_DEVICE_CPU, 0, inferscale::api::Into(device));
}
"""


class Library(unittest.TestCase):
    def test_exports_the_header_and_nothing_else(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True)
        names = {line.split()[-1].split("@")[0] for line in symbols.stdout.splitlines()}
        self.assertEqual(names, set(abi_header.read().functions))

    def test_c_and_cpp_programs_run(self):
        warnings = abi_header.C_FLAGS[3:]
        for flags, code in ((abi_header.C_FLAGS, CALLER), (["-x", "c++", "-std=c++11", *warnings], CALLER),
                            (["-x", "c++", "-std=c++17", *warnings], CALLER_HPP)):
            with tempfile.TemporaryDirectory() as folder:
                source, program = os.path.join(folder, "caller"), os.path.join(folder, "program")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(code)
                subprocess.run([COMPILER, *flags, "-I", abi_header.INCLUDE, source, "-x", "none", LIBRARY,
                                "-Wl,-rpath," + os.path.dirname(LIBRARY), "-o", program], check=True)
                self.assertEqual(subprocess.run([program], check=False).returncode, 0)


if __name__ == "__main__":
    if "--accept" in sys.argv:
        accept(sys.argv[-1])
    else:
        unittest.main(argv=sys.argv[:1])
