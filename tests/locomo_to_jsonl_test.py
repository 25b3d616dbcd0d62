#!/usr/bin/env python3
"""Tests of tools/locomo_to_jsonl.py, on a conversation made up here with every irregularity the data set has."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "locomo_to_jsonl.py")
spec = importlib.util.spec_from_file_location("locomo_to_jsonl", SCRIPT)
locomo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(locomo)


def sample():
    return {
        "sample_id": "conv-0",
        "conversation": {
            "speaker_a": "Ada", "speaker_b": "Ben",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": " I have a kite. "},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red boat", "img_url": ["u"]},
            ],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2": [{"speaker": "Ada", "dia_id": "D2:1", "text": "I sold it.", "query": "kite"}],
            "session_2_date_time": "12:05 am on 1 June, 2023",
            "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "Bye."}],
            "session_10_date_time": "9:00 am on 20 May, 2023",
            "session_3_date_time": "9:00 am on 2 June, 2023",  # a date without a session
        },
        "observation": {
            "session_1_observation": {
                "Ada": [["Ada has a kite.", "D1:1"], ["Ada likes wind.", ["D1:1", "D1:2"]], ["Lost.", "D1:77"]],
                "Ben": [["Ben has a boat.", "D1:2"], ["Ben met Ada.", "D1:1"]],
            },
            "session_2_observation": {"Ada": [["Ada sold a kite.", "D2:1"]]},
        },
        "qa": [
            {"question": "How many?", "answer": 3, "category": 1, "evidence": ["D1:1; D1:02 D:2:1"]},
            {"question": "Why?", "category": 5, "adversarial_answer": "wind", "evidence": []},
            {"question": "Who?", "answer": "Ben", "category": 4, "evidence": ["D", "D9:9", "D10:1", "D10:1"]},
            {"question": "What?", "answer": "a kite", "category": 2},
        ],
        "event_summary": {}, "session_summary": {},
    }


class Convert(unittest.TestCase):
    def setUp(self):
        self.facts, self.turns, self.questions = locomo.convert([sample()], "conv-0")

    def test_turns_come_by_date_with_captions(self):
        self.assertEqual([t["id"] for t in self.turns], ["D1:1", "D1:2", "D10:1", "D2:1"])
        self.assertEqual(self.turns[0],
                         {"id": "D1:1", "speaker": "Ada", "text": "I have a kite.", "date": "2023-05-08"})
        self.assertEqual(self.turns[1]["text"], "Look! [image: a red boat]")
        self.assertEqual(self.turns[3]["text"], "I sold it.")
        self.assertEqual(self.turns[3]["date"], "2023-06-01")

    def test_facts_come_in_the_order_of_their_turns(self):
        self.assertEqual([(f["id"], f["text"]) for f in self.facts],
                         [("D1:1/0", "Ada has a kite."), ("D1:1/1", "Ada likes wind."), ("D1:1/2", "Ben met Ada."),
                          ("D1:2/0", "Ben has a boat."), ("D1/0", "Lost."), ("D2:1/0", "Ada sold a kite.")])

    def test_a_fact_has_its_sessions_date_and_a_turn_that_exists(self):
        self.assertEqual(self.facts[0],
                         {"id": "D1:1/0", "text": "Ada has a kite.", "date": "2023-05-08", "turn": "D1:1"})
        self.assertNotIn("turn", self.facts[4])
        known = {t["id"] for t in self.turns}
        self.assertTrue(all(f["turn"] in known for f in self.facts if "turn" in f))

    def test_numbers_become_text_and_missing_answers_null(self):
        self.assertEqual([q["answer"] for q in self.questions], ["3", None, "Ben", "a kite"])
        self.assertEqual(self.questions[1]["adversarial_answer"], "wind")
        self.assertNotIn("adversarial_answer", self.questions[0])

    def test_evidence_is_cleaned_and_the_rest_reported(self):
        self.assertEqual([q["evidence"] for q in self.questions], [["D1:1", "D1:2", "D2:1"], [], ["D10:1"], []])
        self.assertEqual(self.questions[2]["unresolved"], ["D", "D9:9"])
        self.assertNotIn("unresolved", self.questions[0])

    def test_an_unknown_conversation_names_those_there_are(self):
        with self.assertRaisesRegex(locomo.BadInput, "'conv-9'.*conv-0"):
            locomo.convert([sample()], "conv-9")

    def test_a_session_without_a_readable_date_is_refused(self):
        broken = sample()
        broken["conversation"]["session_1_date_time"] = "yesterday"
        with self.assertRaisesRegex(locomo.BadInput, "session_1_date_time.*yesterday"):
            locomo.convert([broken], "conv-0")


class Command(unittest.TestCase):
    def run_on(self, content, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "in.json"), "w", encoding="utf-8") as file:
                file.write(content)
            result = subprocess.run([sys.executable, SCRIPT, "in.json", *arguments], cwd=folder, capture_output=True,
                                    text=True, check=False)
            written = {}
            for name in sorted(os.listdir(folder)):
                if name.endswith(".jsonl"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        written[name] = [json.loads(line) for line in file]
            return result, written

    def test_only_the_named_files_are_written(self):
        result, written = self.run_on(json.dumps([sample()]), "--conversation", "conv-0", "--facts", "F.jsonl",
                                      "--questions", "Q.jsonl")
        self.assertEqual((result.returncode, result.stdout), (0, "6 facts, 4 turns, 4 questions\n"))
        facts, _, questions = locomo.convert([sample()], "conv-0")
        self.assertEqual(written, {"F.jsonl": facts, "Q.jsonl": questions})

    def test_bad_input_is_one_line_and_writes_nothing(self):
        for content, arguments, message in (
                ("[", ["--facts", "F.jsonl"], "Expecting"),
                ("[]", ["--facts", "F.jsonl"], "no conversation"),
                ('[{"sample_id": "conv-26"}]', ["--facts", "F.jsonl"], "not of LoCoMo's form"),
                ("[1]", ["--facts", "F.jsonl"], "not of LoCoMo's form"),
                ("[]", [], "nothing to write")):
            result, written = self.run_on(content, *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)
            self.assertNotIn("Traceback", result.stderr)
            self.assertEqual(written, {})


if __name__ == "__main__":
    unittest.main()
