"""include/inferscale/inferscale.h as data: its numbers, structs with their layout, and prototypes. The header is parsed
for names (it is ours, and regular); what they are on this machine is asked of the C compiler."""

import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = os.path.join(ROOT, "include")
HEADER = os.path.join(INCLUDE, "inferscale", "inferscale.h")
C_FLAGS = ["-x", "c", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"]
NOT_THE_ABI = {"INFERSCALE_API", "INFERSCALE_ABI_MAJOR", "INFERSCALE_ABI_MINOR"}


class Header:
    """constants: names. structs: {name: [(type, field)]}. functions: {name: prototype}. version: (major, minor)."""

    def __init__(self, text):
        self.text = text
        bare = re.sub(r"//[^\n]*", "", text)
        self.version = tuple(int(re.search(rf"define INFERSCALE_ABI_{part} (\d+)", bare)[1])
                             for part in ("MAJOR", "MINOR"))
        self.constants = [name for name in re.findall(r"#define (INFERSCALE_\w+) ", bare) if name not in NOT_THE_ABI]
        for body in re.findall(r"\nenum \w+ \{(.*?)\};", bare, re.DOTALL):
            self.constants += re.findall(r"INFERSCALE_\w+(?= =)", body)
        self.structs = {}
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", bare, re.DOTALL):
            self.structs[name] = re.findall(r"\s*([\w \*]+?[ \*])(\w+(?:\[\d+\])?);", body)
        self.functions = {}
        for prototype in re.findall(r"^INFERSCALE_API ([^;]+);", bare, re.MULTILINE):
            prototype = re.sub(r"\s+", " ", prototype).strip()
            self.functions[re.search(r"(\w+)\(", prototype)[1]] = prototype

    def layout(self, compiler):
        """Lines "size S bytes", "field S.f offset bytes type", "value NAME number", as `compiler` has them."""
        code = ['#include "inferscale/inferscale.h"', "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
        for name in self.constants:
            code.append(f'  printf("value {name} %lld\\n", (long long)({name}));')
        for struct, fields in self.structs.items():
            code.append(f'  printf("size {struct} %zu\\n", sizeof({struct}));')
            for kind, field in fields:
                name = field.split("[")[0]
                code.append(f'  printf("field {struct}.{name} %zu %zu {kind.strip()}\\n", offsetof({struct}, {name}), '
                            f"sizeof((({struct} *)0)->{name}));")
        code += ["  return 0;", "}", ""]
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "inferscale"))
            for path, text in (("inferscale/inferscale.h", self.text), ("probe.c", "\n".join(code))):
                with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                    file.write(text)
            program = os.path.join(folder, "probe")
            subprocess.run([compiler, *C_FLAGS, "-I", folder, os.path.join(folder, "probe.c"), "-o", program],
                           check=True)
            output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        return output.splitlines()

    def baseline(self, compiler):
        functions = [f"function {prototype}" for prototype in self.functions.values()]
        return [f"version {self.version[0]}.{self.version[1]}", *self.layout(compiler), *functions]


def read():
    with open(HEADER, encoding="utf-8") as file:
        return Header(file.read())


def compare(old, new):
    """What is wrong with the baseline `new`, whose predecessor was `old`: [] or sentences."""
    (old_major, old_minor), (new_major, new_minor) = (
        tuple(int(n) for n in lines[0].split()[1].split(".")) for lines in (old, new))
    growing = {line.split()[1].split(".")[0] for line in old if re.match(r"field \w+\.struct_bytes ", line)}
    old_sizes = {line.split()[1]: int(line.split()[2]) for line in old if line.startswith("size ")}

    def may_go(line):  # fields were appended
        kind, name, *rest = line.split()
        size = f"size {name} "
        return kind == "size" and name in growing and any(
            other.startswith(size) and int(other[len(size):]) > int(rest[0]) for other in new)

    def may_come(line):  # not between what is there, nor at the end of a struct that others hold by value
        kind, name, *rest = line.split(" ")
        struct = name.split(".")[0]
        if kind != "field" or struct not in old_sizes:
            return True
        return struct in growing and int(rest[0]) >= old_sizes[struct]

    gone = [line for line in old[1:] if line not in new and not may_go(line)]
    added = [line for line in new[1:] if line not in old]
    misplaced = [line for line in added if not may_come(line)]
    if new_major != old_major:
        return [] if new_major > old_major else ["the major version went back"]
    wrong = [f"removed or changed: {line}" for line in gone] + [f"moved or put between: {line}" for line in misplaced]
    if wrong:
        return wrong + ["Programs that were compiled with the old header would break. Take it back, add beside it "
                        "instead, or raise INFERSCALE_ABI_MAJOR."]
    if added and new_minor <= old_minor:
        return [f"added: {line}" for line in added] + ["An addition raises INFERSCALE_ABI_MINOR."]
    return []
