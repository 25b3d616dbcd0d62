"""ctest … | ctest_report.py: passes ctest's output through, and puts the ten slowest tests before its closing lines.

They come before, since the last lines of a test run must be ctest's own: people and machines look for them there.
"""

import re
import sys

RESULT = re.compile(r"\s*\d+/\d+ +Test +#\d+: (\S+) \.*.*?([\d.]+) sec")
CLOSING = re.compile(r"\d+% tests passed, ")
COUNT = 10


def slowest(results):
    results = sorted(results, key=lambda result: -result[1])[:COUNT]
    lines = [f"{seconds:8.2f} s  {name}\n" for name, seconds in results]
    return [f"Slowest tests ({len(results)}):\n"] + lines + ["\n"]


def main(source, target):
    results = []
    for line in source:
        found = RESULT.match(line)
        if found:
            results.append((found[1], float(found[2])))
        if CLOSING.match(line) and results:
            target.writelines(slowest(results))
        target.write(line)
        target.flush()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
