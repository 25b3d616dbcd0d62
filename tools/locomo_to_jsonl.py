#!/usr/bin/env python3
"""Turns one conversation of the LoCoMo data set (locomo10.json) into files that `inferscale ask` reads.

  locomo_to_jsonl.py locomo10.json --conversation conv-26 --facts F.jsonl --turns T.jsonl --questions Q.jsonl

F.jsonl  {"id", "text", "date", "turn"}: the data set's own observations, in the order of their turns
T.jsonl  {"id", "speaker", "text", "date"}: the conversation; a picture's caption follows in brackets
Q.jsonl  {"id", "question", "category", "answer", "evidence"}: the gold answer (null where there is none, as for most of
         category 5) and the ids of the turns that hold it; "adversarial_answer" and "unresolved" (evidence that
         names no turn) only where there are any

The data set is licensed CC BY-NC 4.0: keep it, and what this script writes, out of this repository.
"""

import argparse
import collections
import datetime
import json
import re
import sys

# Also "D:11:26" and "D30:05", which the data has beside "D11:26".
TURN_ID = re.compile(r"D:?(\d+):(\d+)")


class BadInput(Exception):
    """What is wrong with the input, in one sentence."""


def session_dates(conversation):
    """{session number: ISO date} of the sessions that took place, in order of their dates.

    There are dates without a session, so only keys with a list of turns count.
    """
    dates = {}
    for key, value in conversation.items():
        match = re.fullmatch(r"session_(\d+)", key)
        if not match or not isinstance(value, list):
            continue
        stamp = conversation.get(key + "_date_time", "")
        try:  # "1:56 pm on 8 May, 2023"
            dates[int(match[1])] = datetime.datetime.strptime(stamp, "%I:%M %p on %d %B, %Y")
        except ValueError:
            raise BadInput(f"{key}_date_time is {stamp!r}, which is no date") from None
    return {number: dates[number].date().isoformat() for number in sorted(dates, key=lambda n: (dates[n], n))}


def turn_text(turn):
    caption = (turn.get("blip_caption") or "").strip()
    return turn["text"].strip() + (f" [image: {caption}]" if caption else "")


def make_turns(conversation, dates):
    return [{"id": turn["dia_id"], "speaker": turn["speaker"], "text": turn_text(turn), "date": date}
            for number, date in dates.items() for turn in conversation[f"session_{number}"]]


def resolve(references, known):
    """The turns that `references` names (a string or a list of them, sometimes several ids in one): (ids, the rest)."""
    ids, rest = [], []
    for reference in references if isinstance(references, list) else [references]:
        for word in re.split(r"[\s;,]+", str(reference).strip()):
            match = TURN_ID.fullmatch(word)
            turn = f"D{int(match[1])}:{int(match[2])}" if match else None
            if turn in known:
                ids += [turn] if turn not in ids else []
            elif word:
                rest.append(word)
    return ids, rest


def make_facts(observation, dates, turns):
    """Observations with their first source turn. One turn may have several: "D1:3/0", "D1:3/1"."""
    place = {turn["id"]: i for i, turn in enumerate(turns)}
    facts = []
    for number, date in dates.items():
        session = []
        for observed in observation.get(f"session_{number}_observation", {}).values():
            for text, references in observed:
                turn = next(iter(resolve(references, place)[0]), None)
                session.append({"text": text.strip(), "date": date, "turn": turn})
        # The file has one speaker's facts after the other's. Facts without a turn come last, being of unknown place.
        session.sort(key=lambda fact: place.get(fact["turn"], len(place)))
        facts += session
        seen = collections.Counter()
        for i, fact in enumerate(session):
            source = fact["turn"] or f"D{number}"
            session[i].update(id=f"{source}/{seen[source]}")
            seen[source] += 1
    order = ("id", "text", "date", "turn")
    return [{key: fact[key] for key in order if fact[key] is not None} for fact in facts]


def make_questions(items, turns):
    known = {turn["id"] for turn in turns}
    questions = []
    for i, item in enumerate(items):
        answer = item.get("answer")
        ids, rest = resolve(item.get("evidence", []), known)
        question = {"id": f"q{i}", "question": item["question"].strip(), "category": item["category"],
                    "answer": None if answer is None else str(answer), "evidence": ids}  # some answers are numbers
        if "adversarial_answer" in item:
            question["adversarial_answer"] = str(item["adversarial_answer"])
        if rest:
            question["unresolved"] = rest
        questions.append(question)
    return questions


def convert(samples, name):
    """(facts, turns, questions) of the conversation called `name`."""
    sample = next((s for s in samples if s["sample_id"] == name), None)
    if sample is None:
        raise BadInput(f"there is no conversation {name!r}; there are " + ", ".join(s["sample_id"] for s in samples))
    dates = session_dates(sample["conversation"])
    turns = make_turns(sample["conversation"], dates)
    return make_facts(sample["observation"], dates, turns), turns, make_questions(sample["qa"], turns)


def write_jsonl(path, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="locomo10.json")
    parser.add_argument("--conversation", default="conv-26", help="its sample_id (default: %(default)s)")
    for what in ("facts", "turns", "questions"):
        parser.add_argument(f"--{what}", metavar="FILE.jsonl", help=f"write the {what} there")
    options = parser.parse_args(arguments)
    wanted = (options.facts, options.turns, options.questions)
    if not any(wanted):
        parser.error("nothing to write: give --facts, --turns or --questions")
    try:
        with open(options.input, encoding="utf-8") as file:
            written = convert(json.load(file), options.conversation)
        for path, rows in zip(wanted, written):
            if path:
                write_jsonl(path, rows)
    except (OSError, json.JSONDecodeError, BadInput) as error:
        sys.exit(f"locomo_to_jsonl.py: {error}")
    except (KeyError, TypeError, AttributeError) as error:
        sys.exit(f"locomo_to_jsonl.py: {options.input} is not of LoCoMo's form ({error!r})")
    print("{} facts, {} turns, {} questions".format(*map(len, written)))


if __name__ == "__main__":
    main()
