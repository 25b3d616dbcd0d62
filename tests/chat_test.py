"""A chat in a real terminal: editing, history, Ctrl-C, Ctrl-D, commands, odd input.

usage: chat_test.py INFERSCALE FACTS.jsonl
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

FACTS = pathlib.Path(sys.argv.pop(2))
PROGRAM = sys.argv.pop(1)
ENGINE = ["--context", "4096"]
FACT_COUNT = 20


class Terminal:
    """The command with a terminal of its own on all three streams."""

    def __init__(self, arguments):
        self.process_id, self.terminal = pty.fork()
        if self.process_id == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(PROGRAM, [PROGRAM, *map(str, arguments)])
        termios.tcsetwinsize(self.terminal, (50, 1000))  # no line is broken by its length
        self.shown = ""  # since the last wait

    def send(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self.terminal, data[:512]):]
            self.read(0.0)

    def read(self, seconds):
        while select.select([self.terminal], [], [], seconds)[0]:
            try:
                got = os.read(self.terminal, 65536)
            except OSError:  # the other end is closed
                return False
            self.shown += got.decode(errors="replace")
            seconds = 0.0
        return True

    def wait(self, pattern, seconds=120):
        """What was shown up to where the pattern fits; it is not looked at again."""
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.shown)
            if found:
                before, self.shown = self.shown[:found.end()], self.shown[found.end():]
                return before
            open_ = self.read(0.5)
            assert (open_ or re.search(pattern, self.shown)) and time.monotonic() < end, (pattern, self.shown[-3000:])

    def prompt(self, before=""):
        """What was shown up to the next prompt, when a line can be edited: libedit shows it first, and what is typed
        before it has set the terminal is edited by the terminal itself."""
        shown = self.wait(before + "> ")
        while termios.tcgetattr(self.terminal)[3] & termios.ICANON:
            time.sleep(0.001)
        return shown

    def interrupt(self, seconds=30):
        """Ctrl-C, up to the prompt. The terminal drops what was printed and not read yet, perhaps the prompt of an
        answer that had just ended: an empty line brings another."""
        self.send("\x03")
        end = time.monotonic() + seconds
        while not re.search("> ", self.shown):
            assert time.monotonic() < end, self.shown[-3000:]
            self.read(2)
            self.send("\r")
        time.sleep(1)  # until the prompts of all these lines are shown
        self.read(0.1)
        self.shown = ""
        self.send("\r")
        self.prompt()

    def ended(self, seconds=60):
        """The exit status; negative: killed by that signal."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.2)
            process_id, status = os.waitpid(self.process_id, os.WNOHANG)
            if process_id:
                self.process_id = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it does not end: " + self.shown[-3000:])

    def close(self):
        if self.process_id:
            os.kill(self.process_id, signal.SIGKILL)
            os.waitpid(self.process_id, 0)
        os.close(self.terminal)


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        some = cls.folder / "facts.jsonl"
        some.write_text("".join(line + "\n" for line in FACTS.read_text().splitlines()[:FACT_COUNT]))
        cls.run_("import", some)
        cls.run_("encode", *ENGINE, "--cache-dir", cls.folder / "cache")

    @classmethod
    def run_(cls, *arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments), "--data-dir", str(cls.folder / "memory")],
                              capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode()

    def start(self, cache, *more):
        terminal = Terminal(["chat", "--data-dir", self.folder / "memory", "--cache-dir", self.folder / cache, *ENGINE,
                             *more])
        self.addCleanup(terminal.close)
        return terminal

    def chat(self, *more):
        terminal = self.start("cache", *more)
        terminal.wait(r"/help lists the commands\.")
        terminal.prompt()
        return terminal

    def test_lines_are_edited_and_remembered(self):
        chat = self.chat("--max-tokens", "4")
        chat.send("/halp\x1b[D\x1b[D\x7fe\r")  # left twice, backspace, e: /help
        chat.wait("/remember TEXT")
        chat.prompt()
        chat.send("\x1b[A\r")  # up: the same again
        chat.wait("/remember TEXT")
        chat.prompt()
        chat.send("/remember not this\x1b[D\x03")  # Ctrl-C drops the line
        chat.prompt("\n")
        chat.send("/help\r")
        chat.wait("/remember TEXT")
        chat.prompt()
        chat.send("/remember The caf\u00e9 is called Z\u00fcrich \U0001F600\r")
        chat.wait("remembered")
        chat.prompt()
        chat.send("\x04")
        self.assertEqual(chat.ended(), 0)
        self.assertIn("The caf\u00e9 is called Z\u00fcrich \U0001F600", self.run_("recall", "caf\u00e9 called"))

    def test_interrupts_end_the_answer_and_nothing_else(self):
        chat = self.chat("--max-tokens", "2000")
        chat.send("\x03")
        chat.prompt()
        chat.send("Tell me everything that you know of all the people, at great length.\r")
        # It has begun: behind the line itself, whose Ctrl-C would still be a key.
        chat.wait(r"great length\.[^\n]*\n[^\r\n]*\w+ \w+")
        chat.interrupt()
        chat.send("/why\r")
        self.assertIn("injected", chat.wait("computed;"))
        chat.prompt()
        chat.send("And what did Nora buy?\r")
        chat.wait(r"Nora buy\?[^\n]*\n[^\r\n]*\w+")
        chat.interrupt()
        chat.send("/quit\r")
        self.assertEqual(chat.ended(), 0)

    def test_an_interrupt_before_there_is_a_prompt_ends_it(self):
        terminal = self.start("none")
        while b"inferscale" not in pathlib.Path(f"/proc/{terminal.process_id}/cmdline").read_bytes():
            terminal.read(0.05)
        terminal.wait("checking that injection is right")  # which takes seconds
        terminal.send("\x03")
        self.assertEqual(terminal.ended(), 130)

    def test_commands(self):
        chat = self.chat("--max-tokens", "4", "--remember")

        def say(line):  # what is shown until the next prompt
            chat.send(line + "\r")
            return chat.prompt("\n")

        fact = re.search(r"remembered ([0-9a-f-]{36})", say("/remember Nora keeps a parrot called Biscuit")).group(1)
        say("What is the parrot called?")
        why = say("/why")
        self.assertIn(fact, why)
        self.assertIn("Nora keeps a parrot called Biscuit", why)
        self.assertIn("takes ids", say("/forget"))
        self.assertIn("no such fact", say("/forget nothing"))
        self.assertIn("forgot 1 fact; the conversation starts over", say(f"/forget  {fact} {fact} "))
        self.assertIn("nothing was answered yet", say("/why"))  # no answer that may repeat it is in the next prompt
        boats = " ".join(f"Boat {i} is called Wave{i}." for i in range(40))  # of several parts, which go with it
        fact = re.search(r"remembered ([0-9a-f-]{36})", say("/remember " + boats)).group(1)
        say("What is boat 3 called?")
        self.assertIn("Wave3", say("/why"))
        say(f"/forget {fact}")
        self.assertNotIn("Wave3", say("/why"))
        say("/new")
        say("What is the parrot called?")
        why = say("/why")
        self.assertIn("first token", why)
        self.assertNotIn(fact, why)
        self.assertIn("is not a command", say("/nonsense"))
        self.assertIn("first token", say("/why"))  # it lives
        chat.send("/exit\r")
        self.assertEqual(chat.ended(), 0)
        self.assertNotIn("Biscuit", self.run_("recall", "parrot called Biscuit"))
        self.assertIn("What is the parrot called?", self.run_("recall", "parrot called"))

    def test_killed_in_an_answer(self):
        chat = self.chat("--max-tokens", "2000")
        chat.send("Tell me a long story.\r")
        chat.wait(r"long story\.[^\n]*\n[^\r\n]*\w+ \w+")
        os.kill(chat.process_id, signal.SIGKILL)
        self.assertEqual(chat.ended(), -signal.SIGKILL)
        again = self.chat("--max-tokens", "4")
        again.send("\x04")
        self.assertEqual(again.ended(), 0)
        self.assertIn("clean", self.run_("fsck"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
