"""A memory with the engine: import, encode, ask, forget, encode again; a chat.

usage: memory_engine_test.py INFERSCALE FACTS.jsonl
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FACTS = pathlib.Path(sys.argv.pop(2))
PROGRAM = sys.argv.pop(1)
ENGINE = ["--context", "4096"]
QUESTION = "What did Nora buy?"


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.run_("import", FACTS)

    @classmethod
    def run_(cls, *arguments, code=0, data="memory", feed=None):
        place = ["--data-dir", cls.folder / data]
        if arguments[0] in ("ask", "encode", "chat"):
            place += ["--cache-dir", cls.folder / "cache", *ENGINE]
        done = subprocess.run([PROGRAM, *map(str, arguments), *map(str, place)], capture_output=True, timeout=900,
                              input=feed)
        assert done.returncode == code, (arguments, done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def ask(self, *more, data="memory"):
        return json.loads(self.run_("ask", "--question", QUESTION, "--top-k", "20", "--max-tokens", "8", "--json",
                                    *more, data=data))

    def copy(self, name):
        shutil.copytree(self.folder / "memory", self.folder / name)
        return name

    def test_everything(self):
        # Nothing is encoded: everything is text, and complete.
        before = self.ask()
        self.assertEqual(before["facts_used"], 20)
        encoded = json.loads(self.run_("encode", "--json"))
        facts = sum(1 for line in FACTS.read_text().splitlines() if line.strip())
        self.assertEqual(encoded["encoded"], facts)
        self.assertLessEqual(encoded["computed_per_fact_token"], 2.2)
        self.assertEqual(json.loads(self.run_("encode", "--json"))["encoded"], 0)
        # All but the tail is injected.
        both = self.ask("--mode", "compare")
        kv, text = both["kv"], both["text"]
        self.assertEqual(kv["prompt_tokens"], text["prompt_tokens"])
        self.assertGreater(kv["injected_tokens"], 0.6 * kv["prompt_tokens"])
        self.assertGreater(kv["injected_tokens"], before["injected_tokens"])
        self.assertGreater(both["ttft_ratio"], 1.5)
        # With all facts computed the answer is the text's.
        same = self.ask("--mode", "compare", "--tail", "20")
        self.assertEqual(same["kv"]["answer"], same["text"]["answer"])
        # A forgotten fact is in no prompt; those that saw its text are text until they are encoded again.
        gone = kv["facts"][10] if isinstance(kv["facts"][10], str) else kv["facts"][10]["id"]
        self.run_("forget", gone)
        after = self.ask()
        ids = [f if isinstance(f, str) else f["id"] for f in after["facts"]]
        self.assertNotIn(gone, ids)
        again = json.loads(self.run_("encode", "--json"))
        self.assertGreater(again["encoded"], 0)
        self.assertLessEqual(again["encoded"], 39)  # 2 C - 1: its run and the one behind it
        final = self.ask()
        self.assertGreater(final["injected_tokens"], 0.6 * final["prompt_tokens"])
        self.assertGreaterEqual(final["injected_tokens"], after["injected_tokens"])

    def test_one_at_a_time_and_restarts(self):
        lines = FACTS.read_text().splitlines()[:6]
        for line in lines:
            one = self.folder / "one.jsonl"
            one.write_text(line + "\n")
            self.run_("import", one, data="single")
            stats = json.loads(self.run_("encode", "--json", data="single"))
            self.assertEqual(stats["encoded"], 1)
            self.assertLessEqual(stats["computed_per_fact_token"], 32)

    def test_import_encodes(self):
        some = self.folder / "twelve.jsonl"
        some.write_text("".join(line + "\n" for line in FACTS.read_text().splitlines()[:12]))
        engine = ["--cache-dir", self.folder / "cache", *ENGINE]
        self.assertIn("12 facts encoded", self.run_("import", some, "--encode", *engine, data="twelve"))
        again = self.run_("import", some, "--encode", *engine, "--json", data="twelve").splitlines()
        self.assertEqual(json.loads(again[-1])["encoded"]["encoded"], 0)
        self.run_("import", some, "--context", "4096", data="twelve", code=2)  # of no use without --encode
        # With a model that nothing can be injected into, nothing is stored.
        self.run_("import", some, "--encode", "--cache-dir", self.folder / "cache", "--context", "1000", data="none",
                  code=5)
        self.assertEqual(json.loads(self.run_("list", "--json", data="none")), [])

    def test_facts_that_made_room(self):
        some = self.folder / "room.jsonl"
        some.write_text("".join(line + "\n" for line in FACTS.read_text().splitlines()[:24]))
        self.run_("import", some, "--kv-budget", "8MiB", data="room")
        first = json.loads(self.run_("encode", "--json", data="room"))
        self.assertGreater(first["text"], 0)
        self.assertIn("encode --all", self.run_("encode", data="room"))
        done = json.loads(self.run_("encode", "--all", "--kv-budget", "1GiB", "--json", data="room"))
        self.assertEqual((done["encoded"], done["text"]), (24, 0))
        self.assertEqual(json.loads(self.run_("stats", "--json", data="room"))["kv"]["records"], 24)

    def test_chat(self):
        data = self.copy("chat")
        said = self.run_("chat", "--max-tokens", "8", "--remember", data=data, feed=(
            b"/remember Nora's parrot is called Biscuit\nWhat is Nora's parrot called?\n/why\n"
            b"And where does she live?\n/why\n/nonsense-is-an-error\n"), code=2)
        self.assertIn("remembered", said)
        whys = [line for line in said.splitlines() if line.startswith("first token")]
        self.assertEqual(len(whys), 2)
        self.assertIn(" 0 kept", whys[0])
        self.assertNotIn(" 0 kept", whys[1])  # the second turn goes on behind the first one
        self.assertIn("Biscuit", self.run_("recall", "parrot called Biscuit", "--top-k", "2", data=data))
        self.assertIn("where does she live", self.run_("recall", "where does she live", data=data))  # --remember

    def test_kv_as_int8(self):
        some = self.folder / "some.jsonl"
        some.write_text("".join(line + "\n" for line in FACTS.read_text().splitlines()[:70]))
        self.run_("import", some, data="int8")
        self.run_("encode", data="int8")
        exact = json.loads(self.run_("stats", "--json", data="int8"))["kv"]
        self.assertEqual(exact["records_as"], {"f16": 70})
        again = json.loads(self.run_("encode", "--all", "--kv-encoding", "int8", "--json", data="int8"))
        self.assertEqual(again["encoded"], 70)
        kv = json.loads(self.run_("stats", "--json", data="int8"))["kv"]
        self.assertEqual((kv["encoding"], kv["records_as"]), ("int8", {"int8": 70}))
        self.assertLess(kv["bytes"], 0.6 * exact["bytes"])
        answer = self.ask(data="int8")
        self.assertGreater(answer["injected_tokens"], 0.6 * answer["prompt_tokens"])
        self.assertIn("clean", self.run_("fsck", data="int8"))

    def test_kill_while_encoding(self):
        data = self.copy("killed")
        for delay in (2.0, 3.0, 4.0):
            process = subprocess.Popen(
                [PROGRAM, "encode", "--data-dir", str(self.folder / data), "--cache-dir", str(self.folder / "cache"),
                 *ENGINE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.run_("encode", data=data)
        self.assertEqual(json.loads(self.run_("encode", "--json", data=data))["encoded"], 0)
        self.assertIn("clean", self.run_("fsck", data=data))
        self.assertGreater(self.ask(data=data)["injected_tokens"], 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
