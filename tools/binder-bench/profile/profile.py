#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Where the instructions of one round trip go, function by function, exactly.

Two boots under `-icount` that differ only in the number of round trips, with a QEMU plugin that counts
executed instructions by address: the difference, divided by the extra round trips, is what one costs.

    PYTHONPATH=tools python3 tools/binder-bench/profile/profile.py --driver rust --size 0

A function's `calls` is how often its first instruction ran; `locked` counts LOCK-prefixed instructions.
"""

import argparse
import bisect
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

from lab import guest, kernel, programs

HERE = pathlib.Path(__file__).resolve().parent
# binder-bench measures this many windows of each of its two lengths.
WINDOWS = 31
SHORT, LONG = 50, 100

# What a function of the kernel proper is for, by its name; the first match counts.
CLASSES = (
    ("copies", r"rep_(movs|stos)|copy_(to|from|user)|memset|memcpy|memmove|strscpy|clear_user|get_user|put_user"),
    ("memory", r"kmalloc|kfree|slab|kmem_cache|list_lru|mem_cgroup|lru|alloc_pages|krealloc|memcg"),
    ("locks", r"spin_(un|try)?lock|mutex|rcu|rwsem|^(up|down)_|read_(un)?lock|write_(un)?lock|preempt_count"),
    ("trees", r"^rb_|^__rb_"),
    ("system call", r"syscall|sys_|entry_|^fd|__fget|fput|security_|ioctl|exit_to_user|irqentry"),
    ("scheduler", r"sched|pick_|enqueue|dequeue|entity|wake|ttwu|switch|update_(curr|load|rq|cfs|protect|deadline|min)"
                  r"|load_avg|prev_task|next_task|task_|resched|vruntime|wait|ktime_get|hrtimer|timerqueue|clock"
                  r"|task|cpu_|timekeeping|lag"),
)

Function = collections.namedtuple("Function", "address name module")
Cost = collections.namedtuple("Cost", "instructions locked calls")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--driver", default="rust", choices=sorted(guest.MODULES))
    parser.add_argument("--workload", default="binder", choices=["binder", "pipe", "seqpacket", "futex", "eventfd"])
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--top", type=int, default=70, help="functions to print (0: all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plugin = pathlib.Path(folder) / "insncount.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", plugin,
                        HERE / "insncount.c"], check=True)
        (few, symbols), (many, same) = (boot(args, plugin, calls) for calls in (SHORT, LONG))
    if symbols != same:
        sys.exit("error: the two boots put functions at different addresses")
    costs = difference(few, many, symbols, (LONG - SHORT) * WINDOWS)
    show(costs, args)


def boot(args, plugin, calls):
    """Counts by address, and the guest's functions, of a run with windows of `calls` round trips."""
    counts = plugin.with_name(f"counts-{calls}")
    guest.ICOUNT = [*_ICOUNT, "-plugin", f"{plugin},out={counts}"]
    bench = (f"exec /lab/binder-bench throughput --driver {args.driver} --count --quiet --sizes {args.size} "
             f"--reply same --carriers {args.workload} --windows 10,{calls}")
    job = guest.Job(argv=["/bin/sh", "-c", f"cat /proc/kallsyms > /out/kallsyms; {bench}"],
                    driver=args.driver, icount=True, timeout=600,
                    files={"/lab/binder-bench": programs.build("tools/binder-bench")})
    result = guest.run(kernel.build("x86_64"), job)
    if not result.good:
        sys.exit(f"error: {'; '.join(result.problems) or result.output}")
    return read_counts(counts), read_symbols(result.files["kallsyms"].decode())


def read_counts(path):
    """{address: (executions, whether it is locked)}"""
    counts = {}
    for line in path.read_text().splitlines():
        address, count, locked = line.split()
        counts[int(address, 16)] = int(count), locked == "1"
    return counts


def read_symbols(text):
    """The kernel's and its modules' functions, by address; the first name of each address."""
    functions = {}
    for line in text.splitlines():
        address, kind, name, *module = line.split()
        if kind in "tTwW" and int(address, 16):
            functions.setdefault(int(address, 16), (name, module[0].strip("[]") if module else ""))
    names = demangle([name for name, _ in functions.values()])
    return sorted(Function(a, names.get(n, n), m) for a, (n, m) in functions.items())


def demangle(names):
    rust = [name for name in names if name.startswith("_R")]
    for tool in ("llvm-cxxfilt-22", "llvm-cxxfilt", "rustfilt"):
        try:
            out = subprocess.run([tool], input="\n".join(rust), text=True, capture_output=True, check=True)
        except FileNotFoundError:
            continue
        return dict(zip(rust, (shorten(line) for line in out.stdout.splitlines())))
    return {}


def shorten(name):
    """Without the hashes that v0 mangling puts behind crate names."""
    return re.sub(r"\[[0-9a-f]{8,}\]", "", name)


def difference(few, many, symbols, calls):
    """{(module, function): Cost} of one round trip."""
    starts = [function.address for function in symbols]
    costs = collections.defaultdict(lambda: [0.0, 0.0, 0.0])
    for address in few.keys() | many.keys():
        locked = (many.get(address) or few[address])[1]
        each = (many.get(address, (0,))[0] - few.get(address, (0,))[0]) / calls
        if address == 0:
            key, entry = ("", "user space"), False
        else:
            place = bisect.bisect_right(starts, address) - 1
            function = symbols[place] if place >= 0 else Function(0, "before the kernel", "")
            key, entry = (function.module, function.name), address == function.address
        cost = costs[key]
        cost[0] += each
        cost[1] += each if locked else 0
        cost[2] += each if entry else 0
    return {key: Cost(*cost) for key, cost in costs.items()}


def classify(name):
    """What a function of the kernel proper is for."""
    if name == "user space":
        return name
    return next((label for label, pattern in CLASSES if re.search(pattern, name)), "other")


def show(costs, args):
    modules = collections.Counter()
    for (module, name), cost in costs.items():
        modules[module or classify(name)] += cost.instructions
    total = sum(cost.instructions for cost in costs.values())
    locked = sum(cost.locked for cost in costs.values())
    print(f"{args.workload} through {args.driver}, {args.size} bytes: "
          f"{total:.1f} instructions, {locked:.1f} locked, per round trip\n")
    for name, instructions in modules.most_common():
        print(f"{instructions:10.1f}  {name}")
    print(f"\n{'instr.':>10} {'locked':>7} {'calls':>7}  function")
    ranked = sorted(costs.items(), key=lambda item: -item[1].instructions)
    for (module, name), cost in ranked[: args.top or None]:
        if abs(cost.instructions) >= 0.05:
            where = f"{name} [{module}]" if module else name
            print(f"{cost.instructions:10.1f} {cost.locked:7.2f} {cost.calls:7.2f}  {where}")


_ICOUNT = guest.ICOUNT

if __name__ == "__main__":
    main()
