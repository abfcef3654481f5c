# SPDX-License-Identifier: GPL-2.0
"""The machine code of the driver with how often a call executes each instruction: where a step is not obvious from its source."""

import bisect
import collections
import re
import subprocess

from lab import guest, module, say
from . import symbols

_OBJDUMP = ("llvm-objdump-22", "llvm-objdump", "objdump")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
_RELOCATION = re.compile(r"^\s*[0-9a-f]+:\s+R_\S+\s+(.*)$")

_MANGLED = re.compile(r"\b_R\w+")

Line = collections.namedtuple("Line", "offset text")


def write(folder, built, driver, operation, functions):
    """Write into a file named after `operation` what it executes of the driver's module, the function that takes most first."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"\W+", "-", f"{driver} {operation.title}") + ".txt")
    code = read(_disassembled(module.build(built) if driver == "rust" else built.module(driver)))
    places = {function.name: function.address for function in functions if function.module == guest.MODULES[driver]}
    executed = executions(operation)
    say.note(f"  {path}")
    path.write_text("\n".join(lines(code, places, executed)) + "\n")


def executions(operation):
    """[(address, instructions, executions in a call)] of each block of instructions, whatever called it."""
    windows, found = operation.windows, collections.Counter()
    for counts, sign in ((windows.short, -1), (windows.long, 1)):
        for (_, address), (times, instructions, _) in counts.blocks.items():
            if times:
                found[address, round(instructions / times)] += sign * times / operation.calls
    return [(*block, times) for block, times in found.items() if abs(times) > 1e-6]


def lines(code, places, executed):
    """The listing: of each function that is executed its instructions in a call, and each of them with its executions."""
    blocks = sorted(executed)
    parts = []
    for name, instructions in code.items():
        times = _times(instructions, places[name], blocks) if name in places else ()
        if any(times):
            rows = [f"{f'{each:.4g}' if each else '':>8}  {line.offset:5x}  {line.text}" for each, line in zip(times, instructions)]
            parts.append((sum(times), [f"\n{sum(times):.1f} instructions: {name}", *rows]))
    parts.sort(key=lambda part: -part[0])
    return [line for _, part in parts for line in part]


def _times(instructions, base, blocks):
    """How often each instruction of a function at address `base` is executed."""
    index = {base + line.offset: number for number, line in enumerate(instructions)}
    times = [0.0] * len(instructions)
    end = base + (instructions[-1].offset if instructions else 0)
    for address, count, each in blocks[bisect.bisect_left(blocks, (base,)):bisect.bisect_right(blocks, (end + 1,))]:
        first = index.get(address, len(times))
        for number in range(first, min(first + count, len(times))):
            times[number] += each
    return times


def read(text):
    """{function: [Line]} of what the disassembler prints; the symbol of a relocation is behind its instruction."""
    names = symbols.demangle(sorted(set(_MANGLED.findall(text))))
    text = _MANGLED.sub(lambda name: names.get(name[0], name[0]), text)
    found, current, start = {}, None, 0
    for line in text.splitlines():
        if header := _FUNCTION.match(line):
            current, start = [], None
            found[header[1]] = current
        elif current is None:
            continue
        elif relocation := _RELOCATION.match(line):
            if current:
                current[-1] = current[-1]._replace(text=f"{current[-1].text}  {relocation[1]}")
        elif instruction := _INSTRUCTION.match(line):
            address = int(instruction[1], 16)
            start = address if start is None else start
            current.append(Line(address - start, re.sub(r"\s+", " ", instruction[2])))
    return found


def _disassembled(path):
    for tool in _OBJDUMP:
        try:
            return subprocess.run([tool, "-dr", "--no-show-raw-insn", "--section=.text", path], text=True,
                                  capture_output=True, check=True).stdout
        except FileNotFoundError:
            continue
    raise say.LabError(f"none of {', '.join(_OBJDUMP)} is there")
