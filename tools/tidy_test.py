#!/usr/bin/env python3
"""Tests of tidy: for each rule a sample that breaks it and one that does not."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("tidy", os.path.join(HERE, "tidy"))
tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
loader.exec_module(tidy)


def findings(path, text, others={}):
    files = {path: text if isinstance(text, bytes) else text.encode()}
    files.update({name: value.encode() for name, value in others.items()})
    return [message for where, _, message in tidy.Tidy(files).run() if where == path]


def function_of(lines, head="void F() {"):
    return head + "\n" + "  x();\n" * (lines - 2) + "}\n"


# (path, bad content, part of the message, good content)
SAMPLES = [
    ("src/core/a.cc", '#include "engine/engine.h"\n', "engine is a higher layer", '#include "base/error.h"\n'),
    ("src/base/a.cc", '#include "core/fact.h"\n', "core is a higher layer", '#include "base/hash.h"\n'),
    ("src/app/a.cc", '#include "llama.h"\n', "llama.cpp is for", '#include "net/x.h"\n'),
    ("src/base/a.cc", '  #  include  <memory/recall.h>\n', "memory is a higher layer", '#include <memory>\n'),
    ("src/elsewhere/a.cc", "int a;\n", "is not a layer", None),
    ("src/engine/vllm/a.cc", "#include <llama.h>\n", "llama.cpp is for", '// #include <llama.h>\n'),
    ("src/memory/a.cc", "#include <ggml-cpu.h>\n", "llama.cpp is for", "#include <string>\n"),
    ("src/engine/a.cc", "#include <jinja/runtime.h>\n", "llama.cpp is for", '/*\n#include <jinja/runtime.h>\n*/\n'),
    ("src/store/a.cc", "#include <sqlite3.h>\n", "the database is for", None),
    ("src/store/a.cc", "#include <boost/asio.hpp>\n", "Boost is for", None),
    ("src/app/a.cc", "#include <Python.h>\n", "Python is for nowhere", None),
    ("src/core/a.cc", 'void F() { std::cout << "a"; }\n', "std::cout", 'void F() { Log("std::cout"); }\n'),
    ("src/core/a.cc", 'void F() { fprintf(f, "a"); }\n', "fprintf", 'void F() { snprintf(f, 3, "a"); }\n'),
    ("src/core/a.cc", "auto* p = new Foo();\n", "'new'",
     "// a new Foo\nauto p = std::unique_ptr<Foo>(\n    new Foo());\n"),
    ("src/core/a.cc", "delete p;\n", "'delete'", "Foo(const Foo&) = delete;\nvoid F(int) = delete ;\n"),
    ("src/core/a_test.cc", "strcpy(a, b);\n", "strcpy", "my_strcpy(a, b);\n"),
    ("bench/a_bench.cc", "sprintf(a, b);\n", "sprintf", "snprintf(a, 1, b);\n"),
    ("src/core/a.cc", "std::abort();\n", "abort", "INFERSCALE_ASSERT(a);\n"),
    ("src/core/a.cc", "assert(a);\n", "assert", "static_assert(a);\nx.assert(a);\n"),
    ("src/core/a.cc", "exit(1);\n", "exit", "on_exit_(1);\n"),
    ("src/core/a.cc", "throw Error();\n", "throw", 'const char* text = "throw";\n'),
    ("src/core/a_test.cc", "std::this_thread::sleep_for(1s);\n", "sleep_for", "cv.wait(lock);\n"),
    ("src/core/a.cc", "int a; \n", "white space", "int a;\n"),
    ("src/core/a.cc", "\tint a;\n", "a tab", "  int a;\n"),
    ("src/core/a.cc", "int a;", "no line end", "int a;\n"),
    ("src/core/a.cc", "//" + "x" * 119 + "\n", "121 columns", "//" + "é" * 118 + "\n"),
    ("tools/a.py", "#" + "x" * 120 + "\n", "121 columns", "#" + "x" * 119 + "\n"),
    ("src/core/a.cc", "int a;\n" * 801, "801 lines", "int a;\n" * 800),
    ("src/core/a.cc", function_of(71), "F has 71 lines", function_of(70)),
    ("src/core/a.cc", "namespace a {\nclass B {\n public:\n" + function_of(71, "  B() : a_(1) {") + "};\n}\n",
     "B has 71 lines", "namespace a {\nclass B {\n" + function_of(60) * 3 + "};\n}\n"),
    ("src/core/a_test.cc", function_of(80, "TEST(Foo, Bar) {"), "Foo.Bar has 80 lines", None),
    ("src/core/a.cc", function_of(90, "int F(int a,\n      int b = {}) const {"), "F has 91 lines",
     "constexpr Row kTable[] = {\n" + "    {F(1), 2},\n" * 100 + "};\n"),
    ("src/core/a.cc", 'void F() {\n  Log("}");  // }\n' + "  if (a) {\n  }\n" * 40 + "}\n", "F has 83 lines",
     '#define F(a) \\\n  void G() {\nvoid H() {\n  Log(R"x({{{)x");\n  char c = \'{\';\n  int n = 1\'000;\n}\n' +
     "int b;\n" * 90),
    ("docs/a.md", "see /wo" + "rk/main\n", "somebody's machine", "see docs/work/a.md\n"),
    ("docs/a.md", "from pypi" + ".org\n", "somebody's machine", "from PyPI\n"),
    ("docs/a.md", b"a" * (3 * 1024 * 1024) + b"\n", "3 MB", "a\n"),
    ("docs/a.md", b"\xff\n", "not UTF-8", "é\n"),
]


class TidyTest(unittest.TestCase):
    def test_each_rule_finds_the_bad_and_leaves_the_good(self):
        for path, bad, message, good in SAMPLES:
            with self.subTest(path=path, message=message):
                found = findings(path, bad)
                self.assertTrue(any(message in text for text in found), found)
                if good is not None:
                    self.assertEqual(findings(path, good), [])

    def test_allowed_places(self):
        self.assertEqual(findings("src/engine/llama/a.cc", '#include "llama.h"\n'), [])
        self.assertEqual(findings("src/app/a.cc", 'void F() { std::cout << printf("a"); }\n'), [])
        self.assertEqual(findings("src/base/assert.cc", "void F() { abort(); }\n"), [])
        self.assertEqual(findings("src/store/remote_redis.cc", "#include <boost/asio.hpp>\n"), [])

    def test_headers(self):
        user = '#include "core/a.h"\n'
        self.assertEqual(findings("src/core/a.h", "#pragma once\n"), ["nobody includes this header"])
        self.assertEqual(findings("src/core/a.h", "#pragma once\n", {"src/core/a.cc": user}), [])
        self.assertIn("no '#pragma once'", findings("src/core/a.h", "int a;\n", {"src/core/a.cc": user}))
        toggle = "#if defined(A_INL_H_) == defined(HWY_TARGET_TOGGLE)\n#endif\n"
        inl_user = {"src/core/a.cc": '#include "core/a-inl.h"\n'}
        self.assertEqual(findings("src/core/a-inl.h", toggle, inl_user), [])
        self.assertIn("no '#pragma once'", findings("src/core/a-inl.h", "int a;\n", inl_user))
        bad = "#pragma once\nusing namespace std;\n"
        self.assertEqual(len(findings("src/core/a.h", bad, {"src/core/a.cc": user})), 1)

    def test_lines_are_counted_from_the_file(self):
        tree = tidy.Tidy({"src/core/a.cc": b"/* a\n b */\nint a;\nassert(b);\n"})
        self.assertEqual([line for _, line, _ in tree.run()], [4])

    def test_command(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src/core"))
            path = os.path.join(root, "src/core/a.cc")
            for text, status in (("int a;\n", 0), ("int a; \n", 1)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                command = [sys.executable, os.path.join(HERE, "tidy"), root]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertIn("1 source files, median 1 lines", done.stdout)


if __name__ == "__main__":
    unittest.main()
