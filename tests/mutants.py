"""Mutation tests: each mutant is one changed source, compiled and linked beside a test program that is built; nothing
in the checkout or the build folder changes. A mutant that no test notices survives: then a test is missing."""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"


class Program:
    """A test program of a build folder, and how it was made."""

    def __init__(self, build, target):
        self.build = build
        database = json.loads((build / "compile_commands.json").read_text())
        self.compile_of = {}
        for entry in database:
            # A source of several programs: the one of this program counts, since its object is linked by name.
            path = pathlib.Path(entry["file"])
            if path not in self.compile_of or f"{target}.dir" in entry["command"]:
                self.compile_of[path] = entry
        link = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True, capture_output=True,
                              text=True).stdout.splitlines()[-1]
        self.link = shlex.split(link.replace(": && ", "", 1).split(" && ")[0])

    def survives(self, source, before, after, tests, folder):
        text = (SOURCE / source).read_text()
        if text.count(before) != 1:
            raise SystemExit(f"{source} has {text.count(before)} times: {before}")
        changed, obj, exe = folder / pathlib.Path(source).name, folder / "mutant.o", folder / "test"
        changed.write_text(text.replace(before, after))
        entry = self.compile_of[SOURCE / source]
        command = shlex.split(entry["command"])
        own = command[command.index("-o") + 1]
        command[command.index("-o") + 1] = str(obj)
        command[command.index("-c") + 1] = str(changed)
        subprocess.run(command + ["-Wno-error", "-w"], check=True, cwd=entry["directory"])
        words = list(self.link)
        words[words.index("-o") + 1] = str(exe)
        if own in words:
            words[words.index(own)] = str(obj)
        else:  # ahead of its library, whose own object is not needed then
            words.insert(words.index("-o") + 2, str(obj))
        subprocess.run(words, check=True, cwd=self.build)
        run = subprocess.run([exe, f"--gtest_filter={tests}", "--gtest_brief=1"], capture_output=True, text=True)
        return run.returncode == 0


def main(doc, target, mutants):
    """mutants: name, source below src/, what is there once, what replaces it, the tests of which one must fail."""
    if len(sys.argv) < 2:
        raise SystemExit(doc)
    program, wanted = Program(pathlib.Path(sys.argv[1]).resolve(), target), set(sys.argv[2:])
    alive = []
    for name, *mutant in mutants:
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lives = program.survives(*mutant, pathlib.Path(folder))
        print(f"{'SURVIVES' if lives else 'found':8}  {name}", flush=True)
        alive += [name] if lives else []
    sys.exit(1 if alive else 0)
