#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs each workload of binder-bench in a guest with a driver loaded, and checks its output and exit code, also for errors.
#
#	guest.sh [BINDER-BENCH]
#
# It kills processes of a running benchmark by their place in the order of starting: coordinator,
# context manager, first server, first client.

bench=${1:-/lab/binder-bench}
log=$(mktemp)
failed=0

# expect STATUS WORDS ARGUMENT...: this run must end with STATUS and print WORDS.
expect() {
	status=$1 words=$2
	shift 2
	"$bench" "$@" >"$log" 2>&1
	judge $? "$*"
}

judge() {
	if [ "$1" != "$status" ] || ! grep -q "$words" "$log"; then
		echo "FAIL $2: status $1 instead of $status, or it did not print '$words':"
		cat "$log"
		failed=1
	else
		echo "ok   $2: $(head -n 1 "$log")"
	fi
}

# expect_killed WORDS PLACE ARGUMENT...: the run must end with status 5 and print WORDS when a process is killed.
expect_killed() {
	status=5 words=$1 place=$2
	shift 2
	"$bench" "$@" --driver x --quiet --seconds 20 >"$log" 2>&1 &
	coordinator=$!
	started "$place"
	kill -9 "$(children "$coordinator" | sed -n "${place}p")"
	wait "$coordinator"
	judge $? "killed process $place of $*"
	survivors "$coordinator"
}

# started PLACE: wait until the coordinator has so many children, and until they are at work, on all CPUs.
started() {
	until [ -n "$(children "$coordinator" | sed -n "${1}p")" ]; do sleep 0.05; done
	sleep 0.1
}

children() {
	grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | tr -dc '0-9\n' | sort -n
}

survivors() {
	for _ in $(seq 200); do
		pidof binder-bench program >/dev/null || return
		sleep 0.05
	done
	echo "FAIL processes of $1 outlive it"
	failed=1
}

# works WORDS ARGUMENT...: this must succeed and print WORDS.
works() {
	words=$1
	shift
	expect 0 "$words" "$@"
}

works "throughput" throughput --driver x --seconds 0.01 --sizes 0,4096 --pairs 1,3
works "handles refs=3000" handles --driver x --seconds 0.01 --refs 0,3000
works "fanin threads=4" fanin --driver x --seconds 0.01 --clients 1,4 --threads 1,4
workloads="oneway fds objects nested freeze death spam"
works "Microseconds" run --workloads "$(echo "$workloads" | tr ' ' ,)" --driver x --seconds 0.01
for workload in $workloads; do
	grep -q "$workload" "$log" || { echo "FAIL nothing of $workload was measured" && failed=1; }
done
works "death request" memory --driver x --steps 2 --objects death-request
works "oneway calls, frozen" growth --driver x --list
works "x ÷ c" paired c=/dev/binderfs x=/dev/binderfs --seconds 0.1
expect 2 "invalid value" memory --driver x --objects nonsense

for driver in a b; do
	"$bench" rpc --driver $driver --sizes 64 --seconds 0.01 --quiet --output /tmp/$driver.json || failed=1
done
works "p50 ÷ a" report --base a /tmp/a.json /tmp/b.json
works "rpc repeatBinder" report --base a /tmp/a.json /tmp/b.json

expect 2 "invalid value" throughput --driver x --sizes 999999
expect 3 "not a Binder device" run --driver x --device /dev/null
expect 3 "No such file" run --driver x --device /nonexistent
expect 3 "not a mounted binderfs" run --driver x --binderfs /tmp
expect 2 "must be a name and a mounted binderfs" paired c=/dev/binderfs /mnt
expect 3 "not a mounted binderfs" paired c=/dev/binderfs x=/tmp --seconds 0.1
expect 2 "two blocks of each" paired a=/dev/binderfs b=/dev/binderfs --seconds 0.01
expect 1 "cannot write" run --driver x --output /nonexistent/result.json
expect 1 "needs a guest under" run --driver x --count
expect 1 "needs a guest under" growth --driver x
expect 6 "No such file" report /nonexistent/result.json
echo '{}' >/tmp/foreign.json
expect 6 "not a result" report /tmp/foreign.json
echo '{"schema":4}' >/tmp/foreign.json
expect 6 "format 4" report /tmp/foreign.json

# Without the right to add a device, or to open one.
mkdir -p /etc
echo 'nobody:x:99:99::/:/bin/sh' >/etc/passwd
chmod 600 /dev/binderfs/vndbinder
for device in /dev/binderfs/vndbinder ''; do
	status=4 words="Permission denied"
	su nobody -c "$bench throughput --driver x --quiet ${device:+--device $device}" >"$log" 2>&1
	judge $? "as nobody, on ${device:-a new device}"
done

# A context manager of someone's own.
one="throughput --driver x --sizes 0 --pairs 1 --device /dev/binderfs/hwbinder --quiet"
# shellcheck disable=SC2086 # options are words
"$bench" $one --seconds 20 >/dev/null 2>&1 &
coordinator=$!
started 3
# shellcheck disable=SC2086
expect 3 "has a context manager already" $one
kill -9 "$coordinator"
wait "$coordinator" 2>/dev/null
survivors "$coordinator"

expect_killed "context manager was killed by SIGKILL" 1 throughput --pairs 2 --sizes 0
expect_killed "binder server of pair 1 was killed by SIGKILL" 2 throughput --pairs 2 --sizes 0
expect_killed "binder client of pair 1 was killed by SIGKILL" 3 throughput --pairs 2 --sizes 0
expect_killed "oneway server was killed by SIGKILL" 2 oneway --sizes 0
expect_killed "nested server was killed by SIGKILL" 2 nested

"$bench" throughput --driver x --quiet --seconds 20 --pairs 2 --sizes 0 >"$log" 2>&1 &
coordinator=$!
started 4
kill -9 "$coordinator"
wait "$coordinator"
survivors "$coordinator"

rm -f "$log"
exit $failed
