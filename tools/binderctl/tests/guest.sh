#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Checks the output and the exit code of each command of binderctl, in a guest with a driver loaded.
#
#	guest.sh BINDERCTL CONTRACT DRIVER
#
# CONTRACT is the program of tests/contract, which puts processes into the states that are looked at.

tool=$1 contract=$2 driver=$3
log=$(mktemp)
failed=0
tried=0

# expect STATUS WORDS ARGUMENT...: this must exit with STATUS and print WORDS, and no escape sequence.
expect() {
	status=$1 words=$2
	shift 2
	"$tool" "$@" >"$log" 2>&1
	judge $? "$*"
}

judge() {
	tried=$((tried + 1))
	if [ "$1" != "$status" ] || ! grep -qF -e "$words" "$log" && [ -n "$words" ] || grep -q "$(printf '\033')" "$log"; then
		echo "FAIL $2: status $1 instead of $status, or it did not print '$words', or it has escape sequences:"
		cat -v "$log"
		failed=$((failed + 1))
	fi
}

# in_scene SCENE STATUS WORDS ARGUMENT...: the same while processes do something; CALLER, MIDDLE and MANAGER are replaced.
in_scene() {
	scene=$1 status=$2 words=$3
	shift 3
	"$contract" scene "$scene" /bin/sh -c '
		chmod 666 "$SCENE"/*binder
		program=$1
		shift
		for word; do
			shift
			set -- "$@" "$(printf "%s\n" "$word" | sed "s/CALLER/$CALLER/; s/MIDDLE/$MIDDLE/; s/MANAGER/$MANAGER/")"
		done
		exec "$program" "$@"' sh "$tool" "$@" >"$log" 2>&1
	judge $? "in scene $scene: $*"
}

# Returns 0 if a process listens to a group of generic netlink: its column of groups is not zero.
listens() {
	awk '$2 == 16 && $4 != "00000000" { found = 1 } END { exit !found }' /proc/net/netlink
}

# The number that a node of the next scene gets that its MIDDLE offers to its CALLER: scenes count alike.
newest_node() {
	"$contract" scene chain "$tool" graph --json >/tmp/graph1
	"$contract" scene chain "$tool" graph --json >/tmp/graph2
	one=$(nodes /tmp/graph1) two=$(nodes /tmp/graph2)
	echo $((two + two - one))
}

nodes() {
	sed 's/.*"nodes":\[\([0-9]*\).*/\1/' "$1"
}

# in_background WORDS ARGUMENT...: starts a command, and waits until it has printed these words.
in_background() {
	words=$1
	shift
	# The output of the last command must not count.
	: >"$log"
	"$tool" "$@" >"$log" 2>&1 &
	watcher=$!
	until grep -qF -e "$words" "$log" || ! kill -0 $watcher 2>/dev/null; do sleep 0.02; done
}

# ends STATUS WORDS WHAT: the command in the background must end like this.
ends() {
	status=$1 words=$2
	wait $watcher
	judge $? "in the background: $3"
}

# holds WHAT COMMAND...: this must succeed.
holds() {
	what=$1
	shift
	tried=$((tried + 1))
	"$@" >/tmp/held 2>&1 || {
		echo "FAIL $what:"
		cat -v /tmp/held "$log"
		failed=$((failed + 1))
	}
}

as_nobody() {
	status=$1 words=$2
	shift 2
	su nobody -c "$tool $*" >"$log" 2>&1
	judge $? "as nobody: $*"
}

mkdir -p /etc
echo 'nobody:x:99:99::/:/bin/sh' >/etc/passwd
echo 'binder:x:77:' >/etc/group

# The drivers' names, and whether they have logs of transactions, sizes of spaces, and files in debugfs.
case $driver in
c) name="the C driver" all=yes ;;
rust) name="Rust Binder" all=yes ;;
upstream) name="upstream's Rust driver" all=no ;;
esac

# of_all ...: a command that needs all log files; with other drivers binderctl must name what is missing.
of_all() {
	if [ $all = yes ]; then
		"$@"
		return
	fi
	while [ "$1" != doctor ] && [ "$1" != explain ]; do shift; done
	case $1 in
	doctor) in_scene full 0 "the driver does not report space sizes" "$@" ;;
	*) expect 5 "upstream's Rust driver does not offer it" "$1" ;;
	esac
}

# Places and devices.
expect 0 "$name" list
expect 0 '"schema":"binderctl.list/1"' list --json
mkdir /tmp/logs /tmp/few /tmp/watched
mount -t binder -o stats=global binder /tmp/logs
mount -t binder -o max=4 binder /tmp/few
expect 0 "added /tmp/few/one" --binderfs /tmp/few add one
chown 99:77 /tmp/few/one
expect 0 "nobody:binder" --binderfs /tmp/few list
expect 0 '"mode":"0600","uid":99,"gid":77' --binderfs /tmp/few --json list
expect 6 "it has 4 devices and may have 4" --binderfs /tmp/few add two
expect 6 "a device of this name exists" add binder
expect 2 "256 bytes is too long" --binderfs /tmp/few add "$(printf '%0256d' 0)"
expect 2 "has a slash" add a/b
expect 2 "cannot be empty" add ""
expect 2 "is a directory's name" add ..
expect 4 "there is no device /dev/null" rm /dev/null
expect 4 "there is no device absent" rm binder absent
holds "no device is removed where another is absent" [ -e /dev/binderfs/binder ]
expect 4 "there is no device binder-control" rm binder-control
expect 0 "removed /tmp/few/one" --binderfs /tmp/few rm one one
expect 4 "/tmp is not a mounted binderfs" --binderfs /tmp list
expect 4 "/tmp/few has no log files" --binderfs /tmp/few graph
expect 2 "unrecognized subcommand" nonsense
expect 0 "added /dev/binderfs/linked" add linked --link
holds "the device is linked" [ "$(readlink /dev/linked)" = binderfs/linked ]
expect 6 "/dev/linked exists" add linked --link
expect 0 "removed /dev/binderfs/linked" rm linked
holds "its link went with it" [ ! -L /dev/linked ]

chmod 666 /tmp/few/* /tmp/logs/*binder
chmod 600 /tmp/few/binder-control /tmp/logs/binder-control

# A name that would clear the screen.
hostile=$(printf 'e\033[2Jx')
expect 0 'added /tmp/few/e\x1b[2Jx' --binderfs /tmp/few add "$hostile"
expect 0 'e\x1b[2Jx' list
expect 0 'e\u001b[2Jx' list --json
umount /tmp/few

# Without rights.
as_nobody 3 "binder-control may not be opened" add x
as_nobody 3 "cannot remove /dev/binderfs/binder" rm binder

# Places that hide devices, or keep others from them.
ln -s binderfs/gone /dev/gone
expect 1 "/dev/gone is a link to /dev/binderfs/gone, which does not exist" doctor
rm /dev/gone
chmod 666 /dev/binder*
expect 1 "chmod 755 /dev/binderfs" doctor
as_nobody 0 "Permission denied" list
chmod 755 /dev/binderfs
mount -t binder binder /tmp/few
expect 1 "in /tmp/few only root may open" doctor
holds "and in no other instance" [ "$(grep -c 'only root may open' "$log")" = 1 ]
expect 0 "added /tmp/few/a b;c" --binderfs /tmp/few add "a b;c"
expect 1 "cd /tmp/few; chmod 0666 -- 'a b;c' binder" doctor
expect 6 "to remove it: binderctl --binderfs /tmp/few rm 'a b;c'" --binderfs /tmp/few add "a b;c"
expect 0 "removed /tmp/few/a b;c" --binderfs /tmp/few rm "a b;c"
chmod 666 /tmp/few/*binder
mount -o remount,bind,nodev /tmp/few
expect 1 "next: mount -o remount,bind,dev /tmp/few" doctor
mount -o remount,bind,dev /tmp/few
mount -t binder -o max=5 binder /tmp/few
chmod 666 /tmp/few/*binder
expect 1 "something is mounted on top of the binderfs at /tmp/few" doctor
expect 0 "/tmp/few  at most 5 devices" list
umount /tmp/few

# No findings, with several instances.
expect 0 "0 findings" doctor
umount /tmp/few
expect 0 '"schema":"binderctl.doctor/1"' doctor --json
of_all expect 0 "no failure is recorded" explain
of_all expect 4 "there is no process 4194304" explain 4194304
expect 0 "there was no room for the data" explain 29201/-28
expect 2 "expected a PID" explain nonsense
expect 2 "expected a PID" explain 0
expect 0 "no process holds an object of another or calls one" graph
expect 4 "process 4194304 has no Binder device open" graph 4194304

# Findings.
in_scene chain 1 " (code 0x2a on binder) for " doctor --waiting 0
in_scene chain 1 ", which sleeps" doctor --waiting 0
in_scene chain 0 "0 findings" doctor --waiting 600000
in_scene chain 0 "1 call waiting, the longest for" graph CALLER
in_scene chain 0 '"schema":"binderctl.graph/1"' graph --json
in_scene chain 0 " (contract)" list
in_scene chain 4 "no process holds node 999999" graph --node 999999
in_scene chain 0 "(contract): binder, 1 object" graph --node "$(newest_node)"
in_scene cycle 1 "again: none of them can continue" doctor
in_scene busy 1 "is busy: 1 thread; waiting: 1 call" doctor
expect 0 "are missed: --no-trace is set" watch --no-trace --duration 0.1
expect 0 "calls that end between two readings of the logs are missed: tracefs is not mounted" watch --duration 0.1
in_scene chain 1 "chain: " watch --slow 1 --count 1
in_scene chain 1 '"schema":"binderctl.slow/1","what":"chain"' watch --slow 1 --json --count 1
in_scene chain 0 "readings of the logs" watch --slow 600000 --duration 0.3
in_scene chain 0 "do not contain the device" watch --slow 1 --device hwbinder --duration 0.3
in_scene cycle 1 "again: none of them can continue unless another thread joins a pool" watch --slow 1 --duration 0.5
holds "a cycle is reported once, and its calls by nothing else" [ "$(grep -c "waits" "$log")" = 1 ]
# A deadlock over two devices, and idle threads on devices that have nothing to do with it.
in_scene crossed 1 "on hwbinder) for" watch --slow 1 --count 1
holds "it is a cycle" grep -q "^cycle: .*none of them can continue" "$log"
in_scene beside 1 "none of them can continue" watch --slow 1 --count 1
# A cycle that a thread has ended by joining the pool, and a server between calls of its own.
in_scene joined 1 "which sleeps" watch --slow 1 --duration 0.5
holds "no cycle is found" [ "$(grep -c "^cycle" "$log")" = 0 ]
# On a busy machine the server may do nothing from one reading to the next.
for _ in 1 2 3 4 5 6 7 8; do
	"$contract" scene nested "$tool" watch --slow 1 --count 1 >"$log" 2>&1
	grep -q "which is working on it" "$log" && break
done
holds "a server between calls of its own is working" grep -q "which is working on it" "$log"
in_scene left 0 "readings of the logs" watch --slow 1 --duration 0.5
in_scene left 0 "0 findings" doctor --waiting 0
of_all in_scene full 1 "bytes for oneway calls are free; 32000 bytes of what is known are from" doctor
of_all in_scene full 1 "BR_FAILED_REPLY (ENOSPC)" explain CALLER
of_all in_scene full 1 "oneway call from" explain MANAGER
of_all in_scene full 0 "no failure is recorded" explain 1
cat >/tmp/cold <<-END
	#!/bin/sh
	# Freezes the cgroup of a process while binderctl runs.
	cold=/sys/fs/cgroup/cold
	mkdir \$cold
	echo \$1 >\$cold/cgroup.procs
	echo 1 >\$cold/cgroup.freeze
	until grep -q "frozen 1" \$cold/cgroup.events; do sleep 0.02; done
	shift
	"$tool" "\$@"
	status=\$?
	echo 0 >\$cold/cgroup.freeze
	cat \$cold/cgroup.procs >/sys/fs/cgroup/cgroup.procs
	rmdir \$cold
	exit \$status
END
chmod +x /tmp/cold
tool=/tmp/cold
in_scene busy 1 "it is in a frozen cgroup, /sys/fs/cgroup/cold; waiting: 1 call" MANAGER doctor
in_scene chain 1 "echo 0 >/sys/fs/cgroup/cold/cgroup.freeze" MANAGER doctor --waiting 0
tool=$1
in_scene dead 1 "holds 1 object of processes that have ended" doctor
of_all in_scene dead 1 "the object that was called is gone" explain CALLER
in_scene frozen 1 "with 1 call waiting for it; calls that wait for a reply were refused" doctor
of_all in_scene frozen 1 "the process that was called is frozen" explain CALLER
of_all in_scene frozen 1 '"return_code":"BR_FROZEN_REPLY"' explain CALLER --json

# Processes whose name turns a terminal upside down.
cp "$contract" "/tmp/$hostile"
contract=/tmp/$hostile
in_scene chain 1 'e\x1b[2Jx' doctor --waiting 0
in_scene chain 0 'e\x1b[2Jx' graph
in_scene chain 0 'e\u001b[2Jx' graph --json
contract=$2

# Failures as they happen.
"$tool" explain --follow --count 1 >"$log" 2>&1 &
watcher=$!
until listens; do sleep 0.02; done
"$contract" scene dead true >/dev/null
ends 1 "BR_DEAD_REPLY" "explain --follow"

# Processes, repeatedly: the columns, and the reason for empty ones.
tracing=/sys/kernel/tracing
expect 2 "must be a number of seconds" top --delay 0
as_nobody 0 "no latencies: " top -n 1 -d 0.1
in_scene chain 0 "PID  THR  BUSY  NODES" top -n 1 -d 0.1
in_scene chain 0 "no latencies: tracefs is not mounted on $tracing" top -n 1 -d 0.1 --filter MIDDLE
holds "one process of the chain waits, and nobody calls" awk '
	/ contract$/ { rows++; good = $2 == 1 && $3 == 1 && $4 == 1 && ($6 == 0 || $6 == "-") && $9 == "-" && $10 == "-" && $11 == "binder" }
	END { exit !(rows == 1 && good) }' "$log"
in_scene chain 0 '"processes":[],' top -n 1 -d 0.1 --json --filter nonsense
expect 4 "mount -t tracefs" trace

mount -t tracefs tracefs $tracing
as_nobody 3 "trace events are for root" trace
expect 2 "trace events do not contain the device" trace --device binder
in_background "PROCESS" top --delay 0.5 --sort pid --filter contract
"$contract" load --driver "$driver" --processes 4 --callers 1 --oneway 0 --objects 0 --seconds 3 --pace 2000 >/tmp/load
kill -INT $watcher
ends 0 " contract" top
holds "processes that call each other have rates and latencies, by their numbers" awk '
	/^ *PID/ { last = alive = 0 }
	/ contract$/ { if ($1 < last) wrong = 1; last = $1; if ($6 > 0 && $9 ~ /s$/ && $10 ~ /s$/ && ++alive == 4) seen = 1 }
	END { exit !seen || wrong }' "$log"
expect 0 '"schema":"binderctl.top/1"' top -n 1 -d 0.1 --json --no-trace

# Calls as they end: a call in a call, oneway calls, what fails, and what a brief trace leaves out.
if [ $all = yes ]; then
	in_background "CALL" trace --code 0x2a --count 3
	"$contract" scene chain true >/dev/null
	"$contract" scene full true >/dev/null
	ends 0 "FAILED: caller ended" trace
	holds "a call is below the call that it is nested in" awk '
		/code 0x2a 0 B FAILED: caller ended$/ { at[++n] = match($0, /[^ ]+ -> /) }
		END { exit !(at[2] == at[1] + 2) }' "$log"
	holds "a oneway call that has no room fails" grep -q ' oneway .*FAILED: BR_FAILED_REPLY$' "$log"
	in_background "CALL" trace --brief --code 42 --count 2
	"$contract" scene chain true >/dev/null
	ends 0 "2 of " "trace --brief"
	holds "a brief trace has no sizes" awk '/ B / { exit 1 }' "$log"
	"$tool" trace --failed --json --count 1 >"$log" 2>&1 &
	watcher=$!
	# JSON has no head. This event is the last one that a trace switches on.
	until grep -qs 1 $tracing/instances/*/events/sched/sched_process_exit/enable; do sleep 0.02; done
	"$contract" scene frozen true >/dev/null
	ends 0 '"error":"BR_FROZEN_REPLY"' "trace --failed"
fi

# Slow calls that end before anybody reads a log twice.
in_background "CALL" watch --slow 200
for attempt in 1 2 3 4 5 6 7 8 9 10; do
	grep -q " code 0x2a" "$log" || "$contract" scene chain sleep 0.25 >/dev/null
done
kill -INT $watcher
ends 1 " code 0x2a" watch
holds "no instance is left" [ -z "$(ls $tracing/instances)" ]

# A trace that ends removes its instance; the next trace removes the instance of a killed one.
for signal in INT TERM HUP; do
	in_background "CALL" trace
	kill -$signal $watcher
	ends 0 " calls" "trace, SIG$signal"
	holds "no instance is left" [ -z "$(ls $tracing/instances)" ]
done
in_background "CALL" trace
kill -9 $watcher
wait $watcher
expect 0 "0 calls" trace --duration 0.1
holds "no instance is left" [ -z "$(ls $tracing/instances)" ]

# The watched instance is unmounted, possibly during a read.
mount -t binder -o stats=global binder /tmp/watched
in_background "PROCESS" top --binderfs /tmp/watched -d 0.1 --no-trace
umount -l /tmp/watched
ends 7 "is gone: its binderfs was unmounted" "top --binderfs"

# Log files that are no longer there, and those of another kind.
expect 4 "has no log files" --binderfs /dev/binderfs explain
umount /tmp/logs
[ $all = no ] || expect 0 "log files can be read: in /sys/kernel/debug/binder" doctor
umount /sys/kernel/debug
expect 4 "no binderfs is mounted with log files, and debugfs has none" graph
expect 1 "mounted with log files" doctor

# A log file that is none, and one whose last line is cut off.
logs=/sys/kernel/debug/binder
mount -t tmpfs tmpfs /sys/kernel/debug
mkdir $logs
printf 'Hello,\033[2J\n' >$logs/state
expect 8 'it begins with "Hello,\\u{1b}[2J"' graph
printf 'binder state:\nproc 12\ncontext \033[2J\n  thread 12: l 0' >$logs/state
expect 1 "state: 1 line cannot be parsed" doctor
expect 5 "there is no $logs/failed_transaction_log" explain
chmod 700 $logs
as_nobody 3 "cannot look into $logs: Permission denied" graph
umount /sys/kernel/debug

# A driver that is taken away while it is watched, and none.
if [ "$driver" = rust ]; then
	"$tool" trace >/tmp/trace 2>&1 &
	tracer=$!
	until grep -q CALL /tmp/trace; do sleep 0.02; done
	"$tool" explain --follow >"$log" 2>&1 &
	watcher=$!
	until listens; do sleep 0.02; done
	umount /dev/binderfs
	rmmod binder_rust
	ends 7 "the driver was unloaded, and its reports with it" "explain --follow"
	watcher=$tracer log=/tmp/trace
	ends 7 "the driver is gone, and its trace events with it" "trace"
	expect 0 "driver: none" list
	expect 1 "the kernel has no Binder driver" doctor
	holds "a mount is not missing where there is no driver" grep -q "^skipped  binderfs is mounted" "$log"
	expect 4 "the kernel has no Binder driver" graph
	expect 4 "load one: modprobe binder_rust" add x
	expect 5 "the kernel has no netlink family binder" explain --follow
	insmod /lab/binder_rust.ko
fi

# Completions and manual pages.
expect 0 "complete -F _binderctl" completions bash
expect 0 "#compdef binderctl" completions zsh
expect 0 "" man --dir /tmp/man
holds "a manual page for each command is written" [ -s /tmp/man/binderctl-explain.1 ]
expect 0 "the driver, mount or device that the command watched is gone" --help

rm -f "$log"
echo "$((tried - failed)) passed, $failed failed"
[ "$failed" = 0 ]
