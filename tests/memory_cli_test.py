"""The commands on a data folder, as a person or a script meets them: real processes, the default embedder.

usage: memory_cli_test.py INFERSCALE [unittest's arguments]
INFERSCALE_KILLS: how many imports are killed (5).
"""
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = sys.argv.pop(1)
KILLS = int(os.environ.get("INFERSCALE_KILLS", "5"))
TIMEOUT = 600


def lines_of(objects):
    return "".join(json.dumps(o, ensure_ascii=False) + "\n" for o in objects)


class Letters(http.server.BaseHTTPRequestHandler):
    """An embedding endpoint: how often each letter is in a text."""

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [{"index": i, "embedding": [1 + text.lower().count(chr(97 + k)) for k in range(26)]}
                for i, text in enumerate(texts)]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.data = self.folder / "data"

    def run_command(self, *arguments, code=0, data=None, stdin=b""):
        """What the process printed, and its standard error."""
        done = subprocess.run([PROGRAM, arguments[0], "--data-dir", str(data or self.data), *arguments[1:]],
                              capture_output=True, timeout=TIMEOUT, input=stdin)
        error = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"{arguments}: {error}")
        return done.stdout.decode(), error

    def json(self, *arguments, **keywords):
        return json.loads(self.run_command(*arguments, "--json", **keywords)[0])

    def fails(self, *arguments, says, code=2, **keywords):
        _, error = self.run_command(*arguments, code=code, **keywords)
        self.assertIn(says, error)

    def file(self, content, name="facts.jsonl"):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def ids(self, *arguments, **keywords):
        return [fact["id"] for fact in self.json("list", *arguments, **keywords)]


class RememberAndRecall(Commands):
    def test_remember_recall_list_history_forget(self):
        self.assertEqual(self.run_command("remember", "Nora adopted a grey cat", "--id", "cat", "--date", "2023-05-08",
                                          "--metadata", '{"topic": "pets"}')[0], "added      cat\n")
        stored = self.json("remember", "Tomas works as a baker", "Nora plays the cello")
        self.assertEqual([f["outcome"] for f in stored["facts"]], ["added", "added"])
        hits = self.json("recall", "Which pet does Nora have?", "--top-k", "2")
        self.assertEqual([h["rank"] for h in hits], [1, 2])
        self.assertEqual((hits[0]["id"], hits[0]["date"], hits[0]["metadata"]),
                         ("cat", "2023-05-08", {"topic": "pets"}))
        self.assertIn("Nora adopted a grey cat", self.run_command("recall", "cat")[0])
        self.assertEqual([h["id"] for h in self.json("recall", "Nora", "--filter", '{"topic": "pets"}')], ["cat"])
        self.assertGreater(hits[0]["score"], hits[1]["score"])
        between = str((hits[0]["score"] + hits[1]["score"]) / 2)
        self.assertEqual([h["id"] for h in self.json("recall", "Which pet does Nora have?", "--threshold", between)],
                         ["cat"])
        listed = self.json("list")
        self.assertEqual(len(listed), 3)
        for field in ("id", "text", "date", "kv", "version", "created_at", "seq"):
            self.assertIn(field, listed[0])
        self.assertEqual(listed[0]["kv"], "queued")
        self.assertEqual(self.ids("--limit", "1"), ["cat"])
        self.assertEqual(self.ids("--after", str(listed[1]["seq"])), [listed[2]["id"]])
        self.assertEqual(self.ids("--newest")[0], listed[2]["id"])
        self.assertEqual(self.ids("--filter", '{"topic": "*"}'), ["cat"])
        self.assertEqual([e["event"] for e in self.json("history", "cat")], ["add"])
        self.assertEqual(self.json("forget", "cat"), {"deleted": 1, "missing": []})
        self.assertNotIn("cat", self.ids())
        history = self.json("history", "cat")
        self.assertEqual([e["event"] for e in history], ["add", "delete"])
        self.assertNotIn("grey", json.dumps(history))
        for path in self.data.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"adopted a grey cat", path.read_bytes(), path)

    def test_duplicates_and_near_duplicates(self):
        first = self.json("remember", "run 1: 84.2 ms")["facts"][0]["id"]
        again = self.json("remember", "run 1: 84.2 ms", "--id", "other")["facts"][0]
        self.assertEqual(again, {"id": first, "outcome": "duplicate"})
        for near in (["run 1: 84.3 ms"], ["run 1: 84.2 ms", "--date", "2023-01-01"]):
            self.assertEqual(self.json("remember", *near)["facts"][0]["outcome"], "added")
        taken = self.json("remember", "something else", "--id", first, code=2)["facts"][0]
        self.assertEqual(taken, {"id": first, "outcome": "id_taken"})
        self.assertEqual(len(self.ids()), 3)

    def test_keys_that_are_not_kept_are_named(self):
        facts = '{"text": "a b", "dat": "2020-01-01"}\n{"text": "c d", "key": "k\\u001b"}\n{"text": "e f"}\n'
        for command in (["remember", "--facts", "-"], ["import", "-"]):
            _, error = self.run_command(*command, stdin=facts.encode())
            self.assertIn("2 lines with keys that are not kept: dat, key", error)
            self.assertNotIn("\x1b", error.replace("\x1b[", ""))
        many = "{" + ", ".join(f'"key{i}": 1' for i in range(20)) + ', "text": "g h"}'
        _, error = self.run_command("import", "-", stdin=many.encode())
        self.assertIn("1 line with keys", error)
        self.assertIn(", …", error)

    def test_idempotency_key(self):
        first = self.json("remember", "one", "--idempotency-key", "k")
        self.assertFalse(first["replayed"])
        self.run_command("forget", first["facts"][0]["id"])
        self.assertTrue(self.json("remember", "one", "--idempotency-key", "k")["replayed"])
        self.assertEqual(self.ids(), [])
        self.fails("remember", "two", "--idempotency-key", "k", says="idempotency")

    def test_texts_of_all_kinds_are_stored_as_they_are(self):
        texts = ["emoji \U0001F600 and \U0001F469\u200d\U0001F680",
                 "\u05e9\u05dc\u05d5\u05dd \u202eabc", "\u6771\u4eac", "a\nb\tc", "e\u0301"]
        self.run_command("remember", "--facts", "-", stdin=lines_of({"text": t} for t in texts).encode())
        self.assertEqual([f["text"] for f in self.json("list")], texts)
        self.assertNotIn("a\nb", self.run_command("list")[0])

    def test_wrong_texts_are_refused_and_nothing_is_stored(self):
        self.run_command("remember", "before")
        good = b'{"text": "good"}\n'
        for bad, says in [(b'{"text": "nul \\u0000"}', "NUL"), (b'{"text": "nul \x00"}', "NUL"),
                          (b'{"text": "\\ud800"}', "JSON"), (b'{"text": "\xed\xa0\x80"}', "UTF-8"),
                          (b'{"text": "%s"}' % (b"a" * 262_145), "262144"), (b'{"text": " "}', "empty"),
                          (b'{"txt": "a"}', "missing"), (b'{"text": "a", "date": "2023-02-30"}', "2023-02-30"),
                          (b'{"text": "a", "metadata": [1]}', "metadata"),
                          (b'{"text": "a", "expires": "soon"}', "expires"),
                          (b'{"text": "a", "supersedes": "f1"}', "supersedes"), (b'{"text": "a", "id": ""}', "id"),
                          (b'{"text": "a", "id": "%s"}' % (b"x" * 249), "248"), (b'{"text": 1}', "number"),
                          (b'{"text": "a"', "JSON"), (b'[1]', "object")]:
            for command in (["remember", "--facts", "-"], ["import", "-"]):
                with self.subTest(bad=bad[:40], command=command[0]):
                    _, error = self.run_command(*command, code=2, stdin=good + bad + b"\n" + good)
                    self.assertIn("line 2", error)
                    self.assertIn(says, error)
        self.fails("remember", b"\xff\xfe", says="UTF-8")
        self.assertEqual([f["text"] for f in self.json("list")], ["before"])

    def test_wrong_calls(self):
        self.fails("recall", "x", says="no memory in")
        self.assertFalse(self.data.exists())
        self.run_command("remember", "one", "--id", "one")
        for arguments, says in [
                (["remember"], "no text"), (["remember", "a", "b", "--id", "x"], "--id"),
                (["remember", "Nora", "likes", "tea"], "in quotes"), (["remember", "-"], "--facts -"),
                (["remember", " "], "empty"),
                (["remember", "a", "--date", "tomorrow"], "--date"),
                (["remember", "a", "--metadata", "[]"], "metadata"),
                (["remember", "a", "--expires", "2001-01-01"], "past"),
                (["remember", "a", "--supersedes", "no"], "no"),
                (["remember", "a", "--facts", "f"], "--facts"), (["remember", "a", "--namespace", ""], "namespace"),
                (["remember", "a", "--kv-budget", "much"], "--kv-budget: write a size"), (["recall", ""], "empty"),
                (["remember", "a", "--kv-budget=-5"], "--kv-budget"),
                (["remember", "a", "--kv-budget", "0"], "--kv-budget"),
                (["remember", "a", "--id", ""], "--id: it is empty"),
                (["ask", "--facts", "", "--question", "x"], "--facts: it is empty"),  # not: answered from the memory
                (["import", "/dev/zero"], "a device"),
                (["forget", "--filter", '{"AND": {}}'], "an empty filter"),
                (["forget", "--filter", '{"NOT": [{"topicc": "x"}]}'], "matches all 1 facts"),
                (["recall", "a", "--filter", '{"a": {"like": 1}}'], "like"),
                (["recall", "a", "--top-k", "0"], "--top-k"),
                (["recall", "a", "--threshold", "nan"], "threshold"), (["update", "one"], "nothing to change"),
                (["update", "no", "--text", "x"], "no"), (["update", "one", "--text", ""], "empty"),
                (["update", "one", "--text", "x", "--if-version", "7"], "version"), (["forget"], "say what"),
                (["forget", "one", "--all"], "say one thing"), (["forget", "--filter", "{}"], "--all"),
                (["forget", "--filter", "{"], "filter"), (["forget", "--all"], "--yes"), (["history", "no"], "never"),
                (["forget", "--all", "--yes", "--namespace", "no"], "no"), (["list", "--filter", "1"], "object"),
                (["import", "/no/such/file"], "/no/such/file"), (["import", "-", "--turns", "-"], "standard input"),
                (["nonsense"], "no command or option nonsense"),
                (["recall", "where", "is", "it"], "in quotes"),
                (["recall", "x", "--topk", "3"], "no command or option --topk"),
                (["remember", "a", "--kv-budget", "5"], "--kv-budget")]:
            with self.subTest(arguments=arguments):
                self.fails(*arguments, says=says)
        self.fails("recall", "a", "--embed-model", "/no/such.gguf", says="/no/such.gguf", code=5)
        self.assertEqual(self.ids(), ["one"])

    def test_namespaces_do_not_see_each_other(self):
        for name in ("a", "b"):
            self.run_command("remember", "Nora adopted a grey cat", "--id", name, "--namespace", name)
        before = self.json("recall", "cat", "--namespace", "a")
        self.run_command("remember", "cat cat cat", "--namespace", "b")
        self.run_command("forget", "b", "--namespace", "b")
        self.assertEqual(self.json("recall", "cat", "--namespace", "a"), before)
        self.fails("forget", "a", "--namespace", "b", says="no fact a")
        self.assertEqual(self.ids("--namespace", "a"), ["a"])
        self.assertEqual(self.json("forget", "--all", "--yes", "--namespace", "b")["deleted"], 1)
        self.assertEqual(self.ids("--namespace", "a"), ["a"])
        self.assertEqual(self.ids("--namespace", "b"), [])


class Changes(Commands):
    def test_supersession_by_key_and_by_id(self):
        self.run_command("remember", "Nora lives in Beijing", "--id", "old", "--key", "home")
        self.run_command("remember", "Nora lives in Shanghai", "--id", "new", "--key", "home")
        self.run_command("remember", "Nora lives in Ghent", "--id", "newest", "--supersedes", "new")
        self.assertEqual(self.ids(), ["newest"])
        self.assertEqual([h["id"] for h in self.json("recall", "Where does Nora live?")], ["newest"])
        shown = {h["id"]: h.get("superseded_by") for h in self.json("recall", "Nora lives", "--superseded")}
        self.assertEqual(shown, {"old": "new", "new": "newest", "newest": None})
        self.assertEqual(self.ids("--superseded"), ["old", "new", "newest"])
        self.assertEqual([e["event"] for e in self.json("history", "old")], ["add", "supersede"])

    def test_update(self):
        self.run_command("remember", "Nora has a grey cat", "--id", "cat", "--expires", "2090-01-01T00:00:00Z")
        self.assertEqual(self.json("update", "cat", "--text", "Nora has a black dog", "--date", "2023-01-02"),
                         {"id": "cat", "version": 2, "content_changed": True})
        self.json("update", "cat", "--metadata", '{"a": 1}', "--if-version", "2")
        fact = self.json("list")[0]
        self.assertEqual((fact["text"], fact["date"], fact["metadata"], fact["expires"]),
                         ("Nora has a black dog", "2023-01-02", {"a": 1}, "2090-01-01T00:00:00Z"))
        self.json("update", "cat", "--no-expires", "--no-date")
        fact = self.json("list")[0]
        self.assertNotIn("expires", fact)
        self.assertIsNone(fact["date"])
        self.assertIn("Nora has a grey cat", json.dumps(self.json("history", "cat")))
        self.assertGreater(self.json("recall", "dog")[0]["keyword"], 0)

    def test_expiry(self):
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 20))
        self.run_command("remember", "The code is 4711", "--id", "code", "--expires", soon)
        self.run_command("remember", "The code is secret", "--id", "stays")
        deadline = time.time() + 60
        while "code" in self.ids() and time.time() < deadline:
            time.sleep(0.5)
        self.assertEqual(self.ids(), ["stays"])
        self.assertEqual([h["id"] for h in self.json("recall", "code", "--superseded")], ["stays"])
        self.assertEqual(self.json("forget", "--expired"), {"deleted": 1, "missing": []})
        self.assertEqual(self.json("forget", "--expired"), {"deleted": 0, "missing": []})
        self.assertEqual(self.json("stats")["facts"], 1)

    def test_forget(self):
        self.run_command("remember", "--facts", "-", stdin=lines_of(
            {"text": f"fact {i}", "id": f"f{i}", "metadata": {"even": i % 2 == 0}} for i in range(10)).encode())
        out, error = self.run_command("forget", "f1", "no1", "f3", "no2", code=2)
        self.assertEqual(out, "forgot     2 facts\n")
        self.assertIn("no fact no1", error)
        self.assertEqual(self.json("forget", "no1", code=2), {"deleted": 0, "missing": ["no1"]})
        self.assertEqual(self.json("forget", "--filter", '{"even": true}')["deleted"], 5)
        self.assertEqual(self.ids(), ["f5", "f7", "f9"])
        # A filter that matches everything is asked about, as --all is.
        self.fails("forget", "--filter", '{"even": false}', says="--yes")
        self.assertEqual(self.ids(), ["f5", "f7", "f9"])
        self.assertEqual(self.json("forget", "--filter", '{"NOT": [{"id": "f9"}]}')["deleted"], 2)
        self.assertEqual(self.json("forget", "--filter", '{"even": false}', "--yes")["deleted"], 1)
        self.run_command("remember", "fact one", "fact two", "fact three")
        self.assertEqual(self.json("forget", "--all", "--yes")["deleted"], 3)
        self.assertEqual(self.run_command("list")[0], "")


class Files(Commands):
    FACTS = [
        {"text": "undated, first", "id": "u0"},
        {"text": "Nora lives in Beijing", "id": "old", "date": "2023-05-08", "supersede_key": "home"},
        {"text": "Nora lives in Shanghai", "id": "new", "date": "2023-06-08", "supersede_key": "home",
         "metadata": {"b": [1, 2.5, None], "a": {"c": "\u6771\u4eac"}}, "turn": "t1"},
        {"text": "undated, last", "id": "u1", "user_id": "alex", "agent_id": "a", "run_id": "r", "app_id": "p"},
        {"text": "Nora has a cat", "id": "cat", "expires": "2090-01-01T00:00:00.250000Z"},
        {"text": "Nora has a dog", "id": "dog", "supersedes": ["cat"]},
        {"text": " ".join(f"Line {i} speaks of the sea." for i in range(120)), "id": "long"},
    ]
    TURNS = [{"id": "t1", "ordinal": 3, "speaker": "Nora", "text": "I moved", "date": "2023-06-08"},
             {"id": "t2", "ordinal": 9, "text": "Where?"}]

    def test_export_and_import_round_trip(self):
        facts, turns = self.file(lines_of(self.FACTS)), self.file(lines_of(self.TURNS), "turns.jsonl")
        out, _ = self.run_command("import", facts, "--turns", turns)
        self.assertEqual(out, "imported   7 facts, 0 were there already; 2 turns, 0 changed, 0 were there already\n")
        first, first_turns = self.folder / "1.jsonl", self.folder / "1t.jsonl"
        self.run_command("export", "-o", str(first), "--turns-out", str(first_turns))
        self.assertEqual(self.run_command("export")[0], first.read_text())
        self.assertEqual([json.loads(l) for l in first_turns.read_text().splitlines()], self.TURNS)
        written = {f["id"]: f for f in map(json.loads, first.read_text().splitlines())}
        self.assertEqual((written["u0"]["order_day"], written["u1"]["order_day"]), ("2023-05-08", "2023-06-08"))
        self.assertEqual((written["old"]["superseded_by"], written["new"]["supersedes"]), ("new", ["old"]))
        for fact in self.FACTS:
            for key, value in fact.items():
                self.assertEqual(written[fact["id"]][key], value)
        other = self.folder / "other"
        self.run_command("import", str(first), "--turns", str(first_turns), data=other)
        second, _ = self.run_command("export", "--turns-out", str(self.folder / "2t.jsonl"), data=other)
        self.assertEqual(second, first.read_text())
        self.assertEqual((self.folder / "2t.jsonl").read_text(), first_turns.read_text())
        self.assertEqual(self.ids(data=other), self.ids())
        out, _ = self.run_command("import", str(first), "--turns", str(first_turns), data=other)
        self.assertEqual(out, "imported   0 facts, 7 were there already; 0 turns, 0 changed, 2 were there already\n")
        self.assertEqual(self.run_command("export", data=other)[0], second)
        self.assertEqual(self.json("fsck", data=other), {"findings": [], "left": 0})

    def test_what_replaced_facts_is_gone(self):
        self.run_command("import", self.file(lines_of(self.FACTS)))
        self.run_command("forget", "dog")
        exported, _ = self.run_command("export")
        other = self.folder / "other"
        _, error = self.run_command("import", "-", data=other, stdin=exported.encode())
        self.assertIn("1 were left out", error)
        self.assertEqual(self.ids(data=other), self.ids())

    def test_a_replaced_fact_that_arrived_later(self):
        lines = [{"text": "new", "id": "n"}, {"text": "old", "id": "o", "superseded_by": "n"},
                 {"text": "circle 1", "id": "c1", "superseded_by": "c2"},
                 {"text": "over", "id": "x", "expires": "2001-01-01"},
                 {"text": "under", "id": "y", "superseded_by": "x"}]
        out, _ = self.run_command("import", "-", "--json", stdin=lines_of(lines).encode())
        counts = json.loads(out.splitlines()[-1])
        self.assertEqual((counts["finished"]["facts"]["expired"], counts["finished"]["facts"]["replaced"]), (1, 2))
        self.assertEqual(self.ids(), ["n"])
        self.assertEqual(self.ids("--superseded"), ["n", "o"])

    def test_taken_ids_and_unknown_supersedes(self):
        self.run_command("remember", "one", "--id", "a")
        lines = [{"text": "other words", "id": "a"}, {"text": "two", "id": "b"}]
        _, error = self.run_command("import", self.file(lines_of(lines)), code=2)
        self.assertIn("line 1: not stored", error)
        self.assertEqual([f["text"] for f in self.json("list")], ["one", "two"])
        lines = [{"text": "three"}, {"text": "four", "supersedes": ["no"]}, {"text": "five"}]
        self.fails("import", self.file(lines_of(lines)), says="line 2")
        self.assertEqual([f["text"] for f in self.json("list")], ["one", "two", "three"])

    def test_stats_and_reembed(self):
        self.run_command("import", self.file(lines_of(self.FACTS)))
        stats = self.json("stats")
        self.assertEqual((stats["facts"], stats["namespaces"], stats["kv"]["records"], stats["erase_pending"]),
                         (7, 1, 0, 0))
        self.assertGreater(stats["queue"]["queued"], 0)
        self.run_command("remember", "budgets are kept", "--kv-budget", "2GiB", "--kv-namespace-budget", "1GiB")
        kv = self.json("stats")["kv"]
        self.assertEqual((kv["budget_bytes"], kv["namespace_budget_bytes"]), (2 << 30, 1 << 30))
        self.assertRegex(self.run_command("stats")[0], "8 in 1 (.|\n)*of 2048 MiB, 1024 MiB a namespace")
        self.run_command("reembed")
        self.assertEqual(self.run_command("fsck")[0], "clean\n")
        self.assertEqual(self.json("recall", "Where does Nora live?")[0]["id"], "new")

    def test_another_embedder_is_refused_until_reembed(self):
        self.run_command("import", self.file(lines_of(self.FACTS)))
        server = http.server.HTTPServer(("127.0.0.1", 0), Letters)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        other = ("--embed-model", f"http://127.0.0.1:{server.server_port}/v1#letters")
        for command in (["recall", "cat"], ["remember", "x"], ["update", "dog", "--text", "x"], ["import", os.devnull]):
            self.fails(*command, *other, says="reembed", code=4)
        self.assertIn("letters", self.json("reembed", *other)["embedder"])
        self.fails("recall", "cat", says="reembed", code=4)
        self.assertEqual(self.json("recall", "Nora has a dog", *other)[0]["id"], "dog")
        self.assertEqual(self.run_command("fsck")[0], "clean\n")

    def test_lost_text_is_reported(self):
        self.run_command("import", self.file(lines_of(self.FACTS)))
        catalog = self.data / "catalog.db"
        content = catalog.read_bytes()
        self.assertIn(b"lives in Shanghai", content)
        catalog.write_bytes(content.replace(b"lives in Shanghai", b"lives in Chonghai"))
        out, error = self.run_command("export", code=4)
        self.assertNotIn("hai", out)
        self.assertIn("fsck", error)
        found, _ = self.run_command("fsck", code=4)
        self.assertIn('fact "new" of namespace "default" is damaged: forget it', found)
        self.assertNotIn("hai", found)
        self.assertGreater(json.loads(self.run_command("fsck", "--repair", "--json", code=4)[0])["left"], 0)
        out, error = self.run_command("list", "--json", code=4)
        left = [fact["id"] for fact in json.loads(out)]
        self.assertTrue("dog" in left and "new" not in left, left)
        self.assertIn("1 rows are damaged", error)
        self.run_command("forget", "new")
        self.assertEqual(self.ids(), left)
        self.assertEqual(self.run_command("fsck")[0], "clean\n")

    def test_a_catalog_that_is_gone_is_no_new_memory(self):
        self.run_command("remember", "one")
        catalog = self.data / "catalog.db"
        catalog.write_bytes(b"")
        for command in (["list"], ["remember", "two"], ["fsck"]):
            self.fails(*command, says="restore a copy", code=4)
        self.assertEqual(catalog.read_bytes(), b"")
        catalog.unlink()
        self.fails("list", says="is missing", code=4)
        self.assertFalse(catalog.exists())

    def test_who_only_reads_writes_nothing_where_there_is_no_memory(self):
        folder, target = self.data / "empty", self.data / "precious"
        folder.mkdir(parents=True)
        target.write_text("precious")
        self.fails("list", says="there is no memory", data=folder)
        self.assertEqual(list(folder.iterdir()), [])
        (folder / "lock").symlink_to(target)
        self.fails("list", says="there is no memory", data=folder)
        self.fails("remember", "x", says="is a link", code=3, data=folder)
        self.assertEqual(target.read_text(), "precious")

    def test_a_second_process_is_told_at_once(self):
        self.run_command("remember", "one")
        owner = subprocess.Popen([PROGRAM, "import", "-", "--json", "--data-dir", str(self.data)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            owner.stdin.write(lines_of({"text": f"fact {i} of many, to keep it at work"} for i in range(4000)).encode())
            owner.stdin.close()
            owner.stdout.readline()  # its first batch is stored: it has the folder
            for command in (["recall", "one"], ["list"], ["remember", "x"], ["forget", "x"], ["fsck"]):
                start = time.monotonic()
                self.fails(*command, says=f"in use by pid {owner.pid} (inferscale import)", code=3)
                self.assertLess(time.monotonic() - start, 1)
        finally:
            owner.kill()
            owner.wait()
            owner.stdout.close()


class Killed(Commands):
    def kill_one(self, path, wait):
        """The ids that an import acknowledged before it was killed; None when it had finished."""
        process = subprocess.Popen([PROGRAM, "import", path, "--json", "--data-dir", str(self.data)],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        acknowledged = []
        with process.stdout:
            lines = [process.stdout.readline()]  # one batch at least: what is killed is at work
            time.sleep(wait)
            os.killpg(process.pid, signal.SIGKILL)
            lines += process.stdout.readlines()
        process.wait()
        for line in lines:
            if line.endswith(b"\n"):
                acknowledged += json.loads(line).get("facts", {}).get("acknowledged", [])
        return acknowledged

    def test_kill_9_loses_nothing_acknowledged(self):
        choose = random.Random(7)
        seen = {}
        for turn in range(KILLS):
            facts = [{"text": f"round {turn} fact {i} about the canal house and its garden", "id": f"r{turn}-{i}"}
                     for i in range(2000)]
            acknowledged = self.kill_one(self.file(lines_of(facts)), choose.uniform(0, 1.5))
            self.assertTrue(acknowledged)
            seen.update({f["id"]: f["text"] for f in facts[:len(acknowledged)]})
            stored = {f["id"]: f["text"] for f in map(json.loads, self.run_command("export")[0].splitlines())}
            self.assertLessEqual(seen.items(), stored.items())
            more = sum(1 for id in stored if id.startswith(f"r{turn}-")) - len(acknowledged)
            self.assertIn(more, (0, 64), "half a batch")  # one batch may be durable and not yet told
            self.assertEqual(self.json("fsck"), {"findings": [], "left": 0})
            seen = stored


if __name__ == "__main__":
    unittest.main(verbosity=2)
