# SPDX-License-Identifier: GPL-2.0
"""The litmus tests of the driver's orderings under the kernel's memory model, and whether docs/ordering.md names every file that has one.

A test in tests/litmus models a few functions and lists states that never occur. A line that ends with `// without LABEL: OTHER` stands
for OTHER if that order is left out, all lines of one LABEL together. Then such a state has to occur: so each order that a test
names is needed, and the test can fail. With `// even without LABEL: OTHER` it must not occur then, either.
"""

import re
import subprocess
import tempfile

from . import foreign, proc, say, source
from .versions import PINNED, ROOT

FOLDER = "tests/litmus"
DOCUMENT = "docs/ordering.md"
_MODEL = "tools/memory-model"
# Seconds that one test may take; they take hundredths of one.
_LIMIT = 60

_MARK = re.compile(r"\s*// ((?:even )?without [^:]+):[ ]?")
_NAME = re.compile(r"^C (\S+)$", re.M)
_OBSERVED = re.compile(r"^Observation \S+ (Never|Sometimes|Always) ", re.M)
_FLAG = re.compile(r"^Flag (.+)$", re.M)
_MODELS = re.compile(r"^ \* Models: .*`[\w./]+:\w+`", re.M)

# Accesses that order one access before another, and accesses that need no order.
_CALL = r"\.(?:load|store|xchg|cmpxchg|add|sub|fetch_\w+)\((?:[^();]|\((?:[^();]|\([^();]*\))*\))*?"
_ACCESS = {
    ".rs": re.compile(_CALL + r"\b(?:Acquire|Release|Full)\s*,?\s*\)|\bsmp_[rw]?mb\(|\b(?:ordering::)?Relaxed\s*,?\s*\)"),
    ".c": re.compile(r"\b(?:smp_\w+|rcu_\w+|synchronize_rcu|xchg|cmpxchg|atomic_\w+|set_current_state|wait_event\w*|wake_up\w*|READ_ONCE|WRITE_ONCE|"
                     r"data_race|module_refcount|__set_current_state)\("),
}
_ACCESS[".h"] = _ACCESS[".c"]
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def tests():
    """The files of all tests."""
    return sorted((ROOT / FOLDER).glob("*.litmus"))


def variants(text):
    """The test as it is, and for each label the test without that order: {label: text}, the first label being empty."""
    labels = list(dict.fromkeys(_MARK.findall(text)))
    return {label: _variant(label, text) for label in ["", *labels]}


def _variant(label, text):
    """The test with the replacements of the lines that are marked with this label, without the marks."""
    lines = []
    for line in text.splitlines():
        code, *marks = _MARK.split(line)
        others = dict(zip(marks[::2], marks[1::2]))
        lines.append(code[:len(code) - len(code.lstrip())] + others[label] if label in others else code)
    named = re.sub(r"\W+", "-", f" {label}") if label else ""
    return _NAME.sub(lambda name: name[0] + named, "\n".join(lines) + "\n", count=1)


def read(output):
    """The result of herd7 for a test: whether it found the state, and its warnings; None if it printed no result."""
    observed = _OBSERVED.search(output)
    return observed and (observed[1], _FLAG.findall(output))


def judge(answers):
    """The problems in {label: answer} of one test."""
    wrong = []
    for label, (observed, flags) in answers.items():
        if label.startswith("without "):
            if observed == "Never":
                wrong.append(f"{label} the state does not occur either: that order is not needed here, or the test cannot fail")
        elif observed != "Never":
            wrong.append(f"the forbidden state can occur {label}".strip())
        elif flags:
            wrong.append(f"the memory model warns {label}".strip() + f": {', '.join(flags)}")
    if not any(label.startswith("without ") for label in answers):
        wrong.append("no line has a replacement without its order, so nothing shows that the test can fail")
    return wrong


def run(tally):
    """All tests and their variants, each of which is one."""
    herd = foreign.root(PINNED["herd"])
    command = [*foreign.command(herd, "herd7"), "-set-libdir", herd / "usr/share/herdtools7/herd", "-conf", "linux-kernel.cfg"]
    passed = failed = 0
    with say.Step("litmus tests"):
        for path in tests():
            answers = {label: _answer(command, path.name, text) for label, text in variants(path.read_text()).items()}
            wrong = judge(answers)
            say.lines(*(f"    {FOLDER}/{path.name}: {what}" for what in wrong))
            failed += len(wrong)
            passed += max(len(answers) - len(wrong), 0)
    tally.add("litmus tests", passed, failed)


def _answer(command, name, text):
    """The result of herd7 for a test under the memory model of the kernel tree that we build."""
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
        file.write(text)
        file.flush()
        try:
            done = subprocess.run([str(word) for word in (*command, file.name)], cwd=source.tree() / _MODEL, env=proc.environment(), text=True,
                                  capture_output=True, timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            raise say.LabError(f"{FOLDER}/{name}: herd7 has not ended after {_LIMIT} s: make its threads shorter") from None
    answer = read(done.stdout)
    if done.returncode or not answer:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise say.LabError(f"{FOLDER}/{name}: herd7 cannot run it: {said[-1] if said else 'no output'}")
    return answer


def complaints(root=ROOT):
    """Files that access shared memory without a lock and that docs/ordering.md does not name, and tests that it does not name or that name
    no functions."""
    text = (root / DOCUMENT).read_text()
    wrong = [f"{DOCUMENT}: does not name {name}, which has accesses without a lock: add the access that each is paired with, or why no order is needed"
             for name in sites(root) if name not in text]
    for path in sorted((root / FOLDER).glob("*.litmus")):
        if f"({'../' + FOLDER}/{path.name})" not in text:
            wrong.append(f"{DOCUMENT}: names no {path.name}")
        if not _MODELS.search(path.read_text()):
            wrong.append(f"{FOLDER}/{path.name}: does not name the functions that it models")
    return wrong


def sites(root=ROOT):
    """The files of the driver that have such accesses, tests left out."""
    paths = [path for folder in ("drivers/android", "rust/kernel") for path in sorted((root / folder).rglob("*"))]
    names = {str(path.relative_to(root)): path for path in paths if path.suffix in _ACCESS}
    return [name for name, path in names.items() if not re.search(r"/tests(\.rs|/)", name)
            and _ACCESS[path.suffix].search(_COMMENT.sub("", path.read_text()))]
