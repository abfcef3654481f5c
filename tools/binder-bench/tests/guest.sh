#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What binder-bench says and returns when something is wrong, tried in a guest with a driver loaded.
#
#	guest.sh [BINDER-BENCH]
#
# It kills processes of a running benchmark by their place in the order of starting: coordinator,
# context manager, first server, first client.

bench=${1:-/lab/binder-bench}
log=$(mktemp)
failed=0

# expect STATUS WORDS ARGUMENT...: this run must end with this status and say these words.
expect() {
	status=$1 words=$2
	shift 2
	"$bench" "$@" >"$log" 2>&1
	judge $? "$*"
}

judge() {
	if [ "$1" != "$status" ] || ! grep -q "$words" "$log"; then
		echo "FAIL $2: status $1 instead of $status, or it did not say '$words':"
		cat "$log"
		failed=1
	else
		echo "ok   $2: $(head -n 1 "$log")"
	fi
}

# expect_killed WORDS PLACE ARGUMENT...: the same, with status 5, when a process is killed meanwhile.
expect_killed() {
	status=5 words=$1 place=$2
	shift 2
	"$bench" throughput --driver x --quiet --seconds 20 --pairs 2 --sizes 0 "$@" >"$log" 2>&1 &
	coordinator=$!
	sleep 1
	kill -9 "$(children "$coordinator" | sed -n "${place}p")"
	wait "$coordinator"
	judge $? "killed process $place of $*"
	survivors "$coordinator"
}

children() {
	grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | tr -dc '0-9\n' | sort -n
}

survivors() {
	sleep 1
	if pidof binder-bench program >/dev/null; then
		echo "FAIL processes of $1 outlive it"
		failed=1
	fi
}

expect 2 "invalid value" throughput --driver x --sizes 999999
expect 2 "is not available" run --driver x --cpus 99
expect 3 "not a Binder device" run --driver x --device /dev/null
expect 3 "No such file" run --driver x --device /nonexistent
expect 3 "not a mounted binderfs" run --driver x --binderfs /tmp
expect 1 "cannot write" run --driver x --output /nonexistent/result.json
expect 6 "No such file" report /nonexistent/result.json
expect_killed "context manager was killed by SIGKILL" 1 --carriers binder
expect_killed "binder server of pair 1 was killed by SIGKILL" 2 --carriers binder
expect_killed "binder client of pair 1 was killed by SIGKILL" 3 --carriers binder --mount
expect_killed "pipe server of pair 1 was killed by SIGKILL" 1 --carriers pipe
expect_killed "seqpacket server of pair 2 was killed by SIGKILL" 3 --carriers seqpacket

"$bench" throughput --driver x --quiet --seconds 20 --pairs 2 --sizes 0 >"$log" 2>&1 &
coordinator=$!
sleep 1
kill -9 "$coordinator"
wait "$coordinator"
survivors "$coordinator"

rm -f "$log"
exit $failed
