#!/usr/bin/env python3
"""First token of a long chat: facts injected, against the same engine with all of the prompt before in its cache.

chat_turns.py PROGRAM DATA_DIR NAMESPACE [TURNS] [ROUNDS] [FACTS]

The namespace's facts must be encoded. Each round is two chats of the same messages: one injects the facts, the other
(--text) computes them in its first turn and has them cached from then on. Printed: medians over the rounds.
"""
import re
import statistics
import subprocess
import sys

PROGRAM, DATA, NAMESPACE = sys.argv[1:4]
TURNS = int(sys.argv[4]) if len(sys.argv) > 4 else 20
ROUNDS = int(sys.argv[5]) if len(sys.argv) > 5 else 3
TOPICS = ["travel", "work", "family", "music", "sports", "food", "books", "school", "health", "plans"]
FACTS = int(sys.argv[6]) if len(sys.argv) > 6 else 50  # for each message
ANSWER = 48


def message(turn):
    topic = TOPICS[turn % len(TOPICS)]
    return (f"This is message {turn + 1}. I have been thinking about {topic} again, mostly because somebody asked me "
            f"about it over lunch and I could not say much. Please tell me what you know of the {topic} of the people "
            f"here, what they said of it, when that was, and whether anything changed since then. Keep it short, I am "
            f"in a hurry.")


def chat(text):
    """[turn] (first token in ms, prompt tokens, tokens kept from the turn before)"""
    lines = "".join(message(turn) + "\n/why\n" for turn in range(TURNS))
    command = [PROGRAM, "chat", "--quiet", "--data-dir", DATA, "--namespace", NAMESPACE, "--top-k", str(FACTS),
               "--max-tokens", str(ANSWER)] + (["--text"] if text else [])
    done = subprocess.run(command, input=lines, text=True, capture_output=True, check=True)
    found = re.findall(r"^first token (\d+) ms; prompt (\d+) tokens: (\d+) kept", done.stdout, re.M)
    assert len(found) == TURNS, done.stdout[-2000:] + done.stderr[-2000:]
    return [(float(ms), int(prompt), int(kept)) for ms, prompt, kept in found]


def main():
    rounds = [(chat(False), chat(True)) for _ in range(ROUNDS)]
    print("turn  prompt tokens  kept  first token, injected  cached text  ratio")
    for turn in sorted({0, 1, 4, 9, 14, TURNS - 1}):
        kv = statistics.median(r[0][turn][0] for r in rounds)
        text = statistics.median(r[1][turn][0] for r in rounds)
        ratio = statistics.median(r[0][turn][0] / r[1][turn][0] for r in rounds)
        _, prompt, kept = rounds[0][0][turn]
        print(f"{turn + 1:4}  {prompt:13}  {kept:4}  {kv:18.0f} ms  {text:8.0f} ms  {ratio:5.2f}")


main()
