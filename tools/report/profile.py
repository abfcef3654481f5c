# SPDX-License-Identifier: GPL-2.0
"""Where the instructions of one round trip go: by call chain, function, room and class, exactly.

A boot under `-icount` with a QEMU plugin that counts what the kernel executes by call chain, in long windows of round trips
and in short ones (counted.py): the difference, divided by the extra round trips, is what one costs.

    PYTHONPATH=tools python3 -m report.profile --driver rust --size 0

A function's `calls` is how often the block at its first instruction ran; `locked` counts LOCK-prefixed
instructions. Functions that the compiler inlined count as the function that they were inlined into.
"""

import argparse
import bisect
import collections
import pathlib
import re
import subprocess

from lab import guest, kernel, module, programs
from lab.versions import ROOT
from . import counted, listing, symbols, told

# What a function of the kernel proper is for, by its name; the first match counts.
CLASSES = (
    ("copies", r"check_(object|stack|heap)|rep_(movs|stos)|copy_(to|from|user)|memset|memcpy|memmove|strscpy|clear_user|get_user|put_user"),
    ("memory", r"kmalloc|kfree|slab|kmem_cache|list_lru|mem_cgroup|lru|alloc_pages|krealloc|memcg"),
    ("locks", r"spin_(un|try)?lock|mutex|rcu|rwsem|^(up|down)_|read_(un)?lock|write_(un)?lock|preempt_count"),
    ("trees", r"^rb_|^__rb_"),
    ("system call", r"syscall|sys_|^entry_|^fd|__fget|fput|security_|tomoyo|apparmor|^hook_|ioctl|exit_to_user|irqentry"),
    ("scheduler", r"^psi_|cpuacct|sched|pick_|enqueue|dequeue|entity|wake|ttwu|switch|update_(curr|load|rq|cfs|protect|deadline|min)"
                  r"|load_avg|prev_task|next_task|task_|resched|vruntime|wait|ktime_get|hrtimer|timerqueue|clock"
                  r"|task|cpu_|timekeeping|lag"),
)
USER, DRIVER, OTHER = "benchmark itself", "driver", "other"
# What comes in between and would come without a round trip, too: more or less of it in each boot.
_BETWEEN = re.compile(r"^(asm_)?(sysvec_|common_interrupt)|^ret_from_fork_asm$|^common_startup")
# Where the kernel is entered on behalf of a program.
_ENTRY = re.compile(r"^__x64_sys_|^asm_exc_")

Cost = collections.namedtuple("Cost", "instructions locked calls")
USER_FUNCTION = symbols.Function(0, "user space", "")


ROUND_TRIP = "throughput --reply same"
# Workloads that take a size.
_SIZED = ("throughput", "oneway")


def measure(driver, program, size=0, carrier="binder", workload=ROUND_TRIP, name="x86_64", code=None):
    """The profiles of a call of each case of a workload of binder-bench, in guest `name`. In the folder `code`, if there is
    one, the driver's machine code is listed for each."""
    built = kernel.build(name)
    sizes = f"--sizes {size}" if workload.split()[0] in _SIZED else ""
    boot = counted.run(built, driver, program, [f"{workload} {sizes}"], carrier)
    functions, files = symbols.of(boot), files_of(built, driver)
    for operation in boot.operations if code else ():
        listing.write(code, built, driver, operation, functions)
    return [profile(driver, operation, functions, files) for operation in boot.operations]


def profile(driver, operation, functions, files):
    """Chains of an operation and what they cost; `files` are those of functions of the driver's C."""
    windows = operation.windows
    costs = difference(windows.short, windows.long, functions, operation.calls)
    return {"driver": driver, "size": operation.cell["size"], "chains": costs, "files": files,
            "what": operation.title}


def difference(few, many, functions, calls):
    """{chain of functions, outermost first: Cost} of one round trip, without what does not belong to it."""
    costs = collections.defaultdict(lambda: [0.0, 0.0, 0.0])
    names = Naming(functions)
    for counts, sign in ((few, -1), (many, 1)):
        paths = names.paths(counts.chains)
        for (chain, address), (executions, instructions, locked) in counts.blocks.items():
            place = names.place(address)
            cost = costs[paths[chain], place]
            cost[0] += sign * instructions / calls
            cost[1] += sign * locked / calls
            cost[2] += sign * executions / calls if address == names.function(place).address else 0
    user = (many.user - few.user) / calls
    found = {names.spell(path) + (names.function(place),): Cost(*cost)
             for (path, place), cost in costs.items() if any(abs(c) > 1e-6 for c in cost)}
    calls = {function.name: cost.calls for function, cost in by_function(found).items()}
    found = {path: cost for path, cost in found.items() if _belongs(path, calls)}
    return found | ({(USER_FUNCTION,): Cost(user, 0.0, 0.0)} if user else {})


def _belongs(path, calls):
    """Whether a chain is part of a round trip: not an interrupt, and not in a system call or an exception that
    not even every other round trip makes, which is how processes start and end."""
    if any(_BETWEEN.match(function.name) for function in path):
        return False
    entry = next((function.name for function in path if _ENTRY.match(function.name)), None)
    return entry is None or calls.get(entry, 0) >= 0.5


class Naming:
    """From addresses to functions, and from chains of calls to paths of functions.

    Functions and paths are numbers here, the same in both boots; a path is known by that of its caller and
    its last function.
    """

    def __init__(self, functions):
        self._functions = functions
        self._starts = [function.address for function in functions]
        self._paths, self._known = [None], {}

    def place(self, address):
        return bisect.bisect_right(self._starts, address) - 1

    def function(self, place):
        return self._functions[place] if place >= 0 else symbols.Function(0, "before the kernel", "")

    def paths(self, chains):
        """{chain: its path}"""
        found = {0: 0}
        for chain in chains:
            todo = []
            while chain not in found:
                todo.append(chain)
                chain = chains[chain][0]
            for chain in reversed(todo):
                caller, address = chains[chain]
                path = found[caller], self.place(address)
                if path not in self._known:
                    self._known[path] = len(self._paths)
                    self._paths.append(path)
                found[chain] = self._known[path]
        return found

    def spell(self, path):
        """The functions of a path, outermost first."""
        functions = []
        while self._paths[path]:
            path, place = self._paths[path]
            functions.append(self.function(place))
        return tuple(reversed(functions))


def by_function(costs):
    """{function: Cost}, whatever called it."""
    sums = collections.defaultdict(lambda: [0.0, 0.0, 0.0])
    for path, cost in costs.items():
        for index, value in enumerate(cost):
            sums[path[-1]][index] += value
    return {function: Cost(*cost) for function, cost in sums.items()}


def classify(function):
    """What a function is for."""
    if function.name == USER_FUNCTION.name:
        return USER
    if function.module in guest.MODULES.values():
        return DRIVER
    return next((label for label, pattern in CLASSES if re.search(pattern, function.name)), OTHER)


def room(function, files):
    """The source file of a driver's function: by its path if it is Rust, else by the object that it is in."""
    modules = re.findall(r"\brust_binder::(?:kernel_ext::)?((?:[a-z_0-9]+::)+)", function.name)
    if modules:
        folder, *files_in_it = modules[0].removesuffix("::").split("::")
        is_folder = (ROOT / "drivers/android" / folder / "mod.rs").exists()
        return "/".join([folder, *files_in_it[:is_folder]]) + ".rs"
    if re.search(r"\brust_binder::", function.name):
        return "rust_binder.rs"
    if "::" in function.name:
        return "kernel crate"
    return files.get(function.name, OTHER)


def files_of(built, driver):
    """{C function: source file} of a driver's module."""
    path = module.build(built) if driver == "rust" else built.module(driver)
    return read_files(subprocess.run(["readelf", "--symbols", "--wide", path], text=True, capture_output=True,
                                     check=True).stdout)


def read_files(listing):
    """From a module's symbols: those of a file come after its name, and those that other files see at the end, so that the
    file is the one whose name theirs begin with."""
    files, names, current = {}, set(), None
    for line in listing.splitlines():
        words = line.split()
        if len(words) < 8:
            continue
        kind, binding, name = words[3], words[4], words[7]
        if kind == "FILE":
            current = name.rsplit("/", 1)[-1]
            names.add(current)
        elif kind == "FUNC" and binding == "LOCAL":
            files[name] = current
        elif kind == "FUNC":
            fitting = (file for file in names if file.endswith(".c") and name.startswith(file[:-2]))
            files[name] = max(fitting, key=len, default=OTHER)
    return files


def summary(profile):
    """What a report needs, as plain data: instructions by class, room and function, and folded chains."""
    functions = by_function(profile["chains"])
    classes, rooms = collections.Counter(), collections.Counter()
    for function, cost in functions.items():
        classes[classify(function)] += cost.instructions
        if classify(function) == DRIVER:
            rooms[room(function, profile["files"])] += cost.instructions
    rows = [{"name": f.name, "module": f.module, "class": classify(f),
             "room": room(f, profile["files"]) if classify(f) == DRIVER else None, **c._asdict()}
            for f, c in sorted(functions.items(), key=lambda item: -item[1].instructions)]
    folded = collections.Counter()
    for path, cost in profile["chains"].items():
        folded[";".join(f.name.replace(";", ",") for f in path)] += cost.instructions
    return {"driver": profile["driver"], "size": profile["size"], "what": profile["what"],
            "instructions": sum(c.instructions for c in functions.values()),
            "locked": sum(c.locked for c in functions.values()),
            "classes": dict(classes.most_common()), "rooms": dict(rooms.most_common()),
            "functions": rows, "folded": dict(folded)}


def show(data, top):
    print(f"{data['what']} through {data['driver']}, {data['size']} bytes: {data['instructions']:.1f} instructions, "
          f"{data['locked']:.1f} locked, of a call\n")
    for title in ("classes", "rooms"):
        for name, instructions in data[title].items():
            if abs(instructions) >= 0.05:
                print(f"{instructions:10.1f}  {name}")
        print()
    print(f"{'instr.':>10} {'locked':>7} {'calls':>7}  function")
    for row in data["functions"][: top or None]:
        if abs(row["instructions"]) >= 0.05:
            where = f"{row['name']} [{row['room']}]" if row["room"] else row["name"]
            print(f"{row['instructions']:10.1f} {row['locked']:7.2f} {row['calls']:7.2f}  {where}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--driver", default="rust", choices=sorted(guest.MODULES))
    parser.add_argument("--carrier", default="binder", help="or a yardstick: pipe, seqpacket, futex, eventfd")
    parser.add_argument("--workload", default=ROUND_TRIP,
                        help="words for binder-bench; of one that works in batches, a batch is counted")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--guest", default="x86_64", choices=[name for name in kernel.GUESTS if "x86_64" in kernel.GUESTS[name].arch])
    parser.add_argument("--top", type=int, default=70, help="functions to print (0: all)")
    parser.add_argument("--code", type=pathlib.Path, help="a folder for the driver's machine code with its executions in a call")
    parser.add_argument("--json", type=pathlib.Path, help="where to write all of it, too")
    args = parser.parse_args()
    told.tell(lambda: [summary(one) for one in measure(args.driver, programs.build("tools/binder-bench"), args.size, args.carrier,
                                                       args.workload, args.guest, args.code)], show, args.top, args.json)


if __name__ == "__main__":
    main()
