# SPDX-License-Identifier: GPL-2.0
# One entry to everything; what is too much for make is in tools/lab.
#
#   GUEST=um        User Mode Linux (default)     DRIVER=rust      ours (default)
#   GUEST=x86_64    QEMU, two CPUs, preemption    DRIVER=c         the C driver
#   GUEST=x86_64-debug  lockdep, KASAN, ...           DRIVER=upstream  the kernel's other Rust driver
#   GUEST=debian    Debian's own kernel, and others: docs/stock-kernels.md
#   GUEST=arm64     or arm64-16k, arm64-64k, riscv64: docs/arm64.md
#   BUILTIN=1       x86-64 (or arm64, arm64-16k) with our driver built into the kernel

GUEST ?= um
DRIVER ?= rust
PYTHON := /usr/bin/python3
LAB := PYTHONPATH=tools $(PYTHON) -B -m lab
ifneq ($(BUILTIN),)
GUEST := x86_64
endif

# A word that nothing reads would be obeyed in silence.
WORDS := GUEST DRIVER BUILTIN FULL ONLY ROUNDS DOCS AGAIN UPDATE STEPS SIZE WORKLOAD CODE QUICK AFRESH NEAR_LIMITS SEED COUNT MOST SLICE \
	RECORD RESUME SECONDS_ CACHE ICOUNT CPUS BUSY HANDOFF READ RUN KERNEL FLAVOUR FROM TEST SINCE UNUSED PYTHON KERNEL_SRC RUST_BINDER_CACHE CARGO_HOME CI
UNKNOWN := $(filter-out $(WORDS),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
ifneq ($(UNKNOWN),)
$(error nothing reads $(UNKNOWN:%=%=): there are $(WORDS); `make help` says where)
endif

# What somebody wrote, as one word of the shell, whatever is in it.
one_word = '$(subst ','\'',$(1))'

WHERE := --guest $(GUEST)$(if $(BUILTIN),-builtin)
# Only if somebody says which.
NAMED := $(if $(filter command line,$(origin GUEST)),--guest $(GUEST))

.DEFAULT_GOAL := help
CLIENTS := client-selftest client-stress client-rsbinder client-rsbinder-units client-gbinder
.PHONY: help bench paired placement many boots retention bench-gate goals bench-exact growth profile test times contract contract-32 kunit contract-table traced layouts unload fuzz mutants mutations clients $(CLIENTS) soak mesh examples clean-machine screens android aosp aosp-bench boot exec kernel module binderctl deb deb-test check litmus doc install patches wrap cache clean purge

help: ## this list
	@echo 'make TARGET [GUEST=um|x86_64|x86_64-debug|arm64|arm64-16k|arm64-64k|riscv64|debian] [DRIVER=rust|c|upstream] [BUILTIN=1]'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 25

bench: $(PYTHON) ## our driver next to C on Debian's own kernel, exactly, and build/report/index.html (FULL=1: all drivers, times, memory ...; ONLY=time|count|memory|pressure|mesh|lines|profile|report; AGAIN=1: what is there already, too; GUEST=x86_64: on our kernel)
	@$(LAB) bench $(if $(FULL),--full) $(if $(ONLY),--only $(call one_word,$(ONLY))) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(DOCS),--docs) $(if $(AGAIN),--again) $(NAMED)

# Guests in which nothing is pinned.
scenes = $(if $(CPUS),--cpus $(call one_word,$(CPUS))) $(if $(BUSY),--busy $(call one_word,$(BUSY))) $(if $(HANDOFF),--handoff $(call one_word,$(HANDOFF)))

paired: $(PYTHON) ## time of round trips through C and ours in one kernel, in turns, by the same processes (ROUNDS=5 SECONDS_=10; CPUS=1,2,4 BUSY=0,1 HANDOFF=0,1,2, or some of them: nothing pinned, on so many CPUs, beside a process that computes; DOCS=1: into docs)
	@$(LAB) paired $(WHERE) $(scenes) $(if $(ROUNDS),--boots $(ROUNDS)) $(if $(SECONDS_),--seconds $(SECONDS_)) $(if $(DOCS),--docs)

placement: $(PYTHON) ## where client and server of a call run that nobody pins, through C and ours, and who moves them (CPUS=1,2,4 BUSY=0,1 HANDOFF=0,1,2, or some of them; ROUNDS=3 SECONDS_=2; DOCS=1: into docs)
	@$(LAB) placement $(WHERE) $(scenes) $(if $(ROUNDS),--boots $(ROUNDS)) $(if $(SECONDS_),--seconds $(SECONDS_)) $(if $(DOCS),--docs)

many: $(PYTHON) ## calls a second of many clients at once through C and ours in one kernel, on CPUS=2 (ROUNDS=3 SECONDS_=0.3)
	@$(LAB) many $(WHERE) $(if $(CPUS),--cpus $(CPUS)) $(if $(ROUNDS),--boots $(ROUNDS)) $(if $(SECONDS_),--seconds $(SECONDS_))

boots: $(PYTHON) ## how far boots of C and of ours in User Mode Linux lie apart in the time of a null call (ROUNDS=20 SECONDS_=3; DOCS=1: into docs)
	@$(LAB) boots $(if $(ROUNDS),--boots $(ROUNDS)) $(if $(SECONDS_),--seconds $(SECONDS_)) $(if $(DOCS),--docs)

retention: $(PYTHON) ## memory that stays of processes, threads, calls ... that have ended, next to the C driver's
	@$(LAB) retention

bench-gate: $(PYTHON) ## exact instructions, locked operations, memory and lines that move, against what is recorded (UPDATE='why' records new ones; GUEST=arm64: instructions on arm64)
	@$(LAB) bench-gate $(NAMED) $(if $(filter-out undefined,$(origin UPDATE)),--update $(call one_word,$(UPDATE)))

goals: $(PYTHON) ## what ours is to reach next to C, row by row, and whether it does (AGAIN=1: counted anew; DOCS=1: into docs); fails while a goal is not met or not measured
	@$(LAB) goals $(if $(DOCS),--docs) $(if $(AGAIN),--again)

bench-exact: $(PYTHON) ## whether three runs of every driver count the same instructions
	@$(LAB) bench-exact $(if $(ROUNDS),--rounds $(ROUNDS))

growth: $(PYTHON) ## exact instructions with more and more of everything, on all drivers (ONLY=nesting,files DRIVER=rust STEPS=1..6; DOCS=1: into docs)
	@$(LAB) growth $(if $(ONLY),--only $(call one_word,$(ONLY))) $(if $(filter command line,$(origin DRIVER)),--driver $(DRIVER)) $(if $(STEPS),--steps $(STEPS)) $(if $(DOCS),--docs)

profile: $(PYTHON) ## where the instructions of one null call through DRIVER go, by function (SIZE=4096 WORKLOAD='objects'; CODE=FOLDER: and by machine instruction)
	@PYTHONPATH=tools $(PYTHON) -B -m report.profile --driver $(DRIVER) $(if $(SIZE),--size $(SIZE)) $(if $(WORKLOAD),--workload $(call one_word,$(WORKLOAD))) $(if $(CODE),--code $(call one_word,$(CODE)))

test: $(PYTHON) ## everything that must hold: checks, host tests, contract suite in all guests, clients, soak (QUICK=1: contract, clients and layouts on Debian's own kernel, none is compiled; QUICK=1 GUEST=arm64, arm64-16k, arm64-64k or riscv64: there; AFRESH=1: also what the C driver passed before in the same guest)
	@$(LAB) test $(if $(QUICK),--quick $(if $(filter file,$(origin GUEST)),debian,$(GUEST)),$(NAMED)) $(if $(AFRESH),--afresh)

times: $(PYTHON) ## where the time of the last `make test` went, stage by stage (DOCS=1: into docs/lab.md, and the order of stages anew)
	@$(LAB) times $(if $(DOCS),--docs)

contract: $(PYTHON) ## the contract suite in one guest against one driver, and the table of rules and tests (ONLY=deaths::,sync:: for some; NEAR_LIMITS=1: the driver's numbers start near their ends)
	@$(LAB) contract $(WHERE) --driver $(DRIVER) $(if $(ONLY),--only $(call one_word,$(ONLY))) $(if $(NEAR_LIMITS),--near-limits)

kunit: $(PYTHON) ## the suites that KUnit runs inside the kernel, in the debugging guest (GUEST=arm64: on arm64)
	@$(LAB) kunit $(NAMED)

contract-32: $(PYTHON) ## the contract suite compiled for 32-bit tasks, on an x86-64 kernel (GUEST=arm64: on arm64)
	@$(LAB) contract-32 $(NAMED) --driver $(DRIVER)

layouts: $(PYTHON) ## whether Rust sees the kernel's structs as C does
	@$(LAB) layouts $(WHERE)

unload: $(PYTHON) ## our driver taken away at the moments at which its code might still be needed
	@$(LAB) unload $(WHERE)

contract-table: $(PYTHON) ## the same against all three drivers, into docs/contract.md
	@$(LAB) contract-table $(WHERE)

fuzz: $(PYTHON) ## random commands on the C driver and on ours, which have to do the same (SEED=1 COUNT=300)
	@$(LAB) fuzz $(WHERE) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

mutants: $(PYTHON) ## faults made by a machine, a sample of them, and whether the tests see them (SEED=1 COUNT=300; RECORD=1 into docs)
	@$(LAB) mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(MOST),--most $(MOST)) $(if $(SLICE),--slice $(SLICE)) $(if $(RECORD),--record)

mutations: $(PYTHON) ## the driver broken on purpose, and whether the tests notice (ONLY=R03,R04 for some, RESUME=1: those that the last runs did not kill)
	@$(LAB) mutations $(if $(ONLY),--only $(call one_word,$(ONLY))) $(if $(RESUME),--resume)

traced: $(PYTHON) ## trace events: formats and what they say of the same scenes next to the C driver's; a tracer that outlives the driver
	@$(LAB) traced

soak: $(PYTHON) ## ten minutes of random kill -9 under load (SECONDS_=N for another time)
	@$(LAB) soak $(WHERE) $(if $(SECONDS_),--seconds $(SECONDS_))

examples: $(PYTHON) ## the commands of docs/observability.md, run where they are explained; the logs of C next to ours (DRIVER=c: the commands on that one)
	@$(LAB) examples $(if $(filter command line,$(origin DRIVER)),--driver $(DRIVER))

clean-machine: $(PYTHON) ## the commands of README and docs on a root of Debian 12 with git and make only, as root (ONLY='make boot; make module': those; FULL=1: those that take long, too; CACHE=1: with this cache; DOCS=1: times into docs/lab.md)
	@$(LAB) clean-machine $(if $(ONLY),--only $(call one_word,$(ONLY))) $(if $(FULL),--everything) $(if $(CACHE),--with-cache) $(if $(DOCS),--docs)

mesh: $(PYTHON) ## 20 processes that all call each other: what was served, what refused, how long it took (SECONDS_=N; READ=1: eight pairs, while all log files are read; GUEST=x86_64 ICOUNT=1: time is instructions, CPUS=2)
	@$(LAB) mesh $(WHERE) --driver $(DRIVER) $(if $(SECONDS_),--seconds $(SECONDS_)) $(if $(ICOUNT),--icount) $(if $(CPUS),--cpus $(CPUS)) $(if $(READ),--read-logs)

screens: $(PYTHON) ## binderctl in terminals: what is typed and has to be seen, and pictures of it into docs/figures
	@$(LAB) screens $(WHERE) --driver $(DRIVER)

android: $(PYTHON) ## a user space in Android's shape on an Android-like kernel: freezing, kills, pressure, on C and ours side by side (SECONDS_=60 SEED=1; GUEST=x86_64-android or arm64-android; DRIVER=rust: on one)
	@$(LAB) android $(NAMED) $(if $(filter command line,$(origin DRIVER)),--driver $(DRIVER)) $(if $(SECONDS_),--seconds $(SECONDS_)) $(if $(SEED),--seed $(SEED))

aosp: $(PYTHON) ## Android 14's libbinder, service manager and tests on a driver, compared with the C driver
	@$(LAB) aosp $(WHERE) --driver $(DRIVER)

aosp-bench: $(PYTHON) ## Android 14's own benchmarks of Binder on all drivers (ONLY=count|pinned|free ROUNDS=3; ONLY=beside: C and ours in one kernel, in turns; AGAIN=1: what is there already, too; DOCS=1: into docs)
	@$(LAB) aosp-bench $(if $(ONLY),--only $(call one_word,$(ONLY))) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(DOCS),--docs) $(if $(AGAIN),--again)

clients: $(PYTHON) ## every client-… below, on the C driver and on ours, and whether they print the same
	@$(LAB) clients $(WHERE)

client-selftest: $(PYTHON) ## the kernel's own test of binderfs
	@$(LAB) clients $(WHERE) --driver $(DRIVER) selftest

client-stress: $(PYTHON) ## stress-ng's stressor for binderfs, a few seconds
	@$(LAB) clients $(WHERE) --driver $(DRIVER) stress

client-rsbinder: $(PYTHON) ## an AIDL service and its clients on rsbinder, with its service manager
	@$(LAB) clients $(WHERE) --driver $(DRIVER) rsbinder

client-rsbinder-units: $(PYTHON) ## rsbinder's own tests
	@$(LAB) clients $(WHERE) --driver $(DRIVER) rsbinder-units

client-gbinder: $(PYTHON) ## libgbinder's tools against that service manager and service
	@$(LAB) clients $(WHERE) --driver $(DRIVER) gbinder

boot: $(PYTHON) ## an interactive shell in a guest, driver loaded, binderfs mounted
	@$(LAB) boot $(WHERE) --driver $(DRIVER)

exec: $(PYTHON) ## run a program in a guest: make exec RUN='ls /dev/binderfs'
	@$(LAB) exec $(WHERE) --driver $(DRIVER) -- $(RUN)

kernel: $(PYTHON) ## build a guest's kernel
	@$(LAB) kernel $(WHERE)

module: $(PYTHON) ## build our driver as a module for a guest
	@$(LAB) module $(WHERE)

binderctl: $(PYTHON) ## build tools/binderctl as a static program, build/programs/binderctl, to be copied to /usr/local/bin
	@$(LAB) binderctl

deb: $(PYTHON) ## Debian packages in build/deb: rust-binder-dkms, our driver for stock kernels, and binder-tools
	@$(LAB) deb

deb-test: $(PYTHON) ## these packages installed, used, upgraded and purged on Debian machines with stock kernels (as root; ONLY=sid|trixie: on that one)
	@$(LAB) deb-test $(if $(ONLY),--only $(call one_word,$(ONLY)))

check: $(PYTHON) ## format, clippy, checkpatch, docs
	@$(LAB) check

litmus: $(PYTHON) ## the litmus tests of the driver's memory orderings, under the kernel's memory model (docs/ordering.md)
	@$(LAB) litmus

doc: $(PYTHON) ## the documentation of driver and rust/kernel, private items included, as pages in build/doc
	@$(LAB) doc

install: $(PYTHON) ## lay the driver into a Linux tree: make install KERNEL=/path
	@$(LAB) install $(call one_word,$(KERNEL))

patches: $(PYTHON) ## the driver as patches for git am, in build/patches (FROM='Jane Doe <jane@example.org>'; FLAVOUR=replace|beside; KERNEL=/path: for that tree; DOCS=1: the table into docs; TEST=1: a kernel after each patch, or from SINCE=PATCH on, and the contract suite on the last)
	@$(LAB) $(if $(TEST),patches-test,patches) $(if $(FLAVOUR),--flavour $(call one_word,$(FLAVOUR))) $(if $(TEST),$(if $(SINCE),--since $(call one_word,$(SINCE))),$(if $(FROM),--from $(call one_word,$(FROM))) $(if $(KERNEL),--tree $(call one_word,$(KERNEL))) $(if $(DOCS),--docs))

wrap: $(PYTHON) ## comments of the driver that are too long for checkpatch, wrapped
	@$(LAB) wrap

clean: ## remove what was built in this tree
	rm -rf build

cache: $(PYTHON) ## what is in the cache that all checkouts share, how large it is, and when it was used
	@$(LAB) cache

purge: $(PYTHON) ## remove that cache (UNUSED=14: only what no checkout has used for 14 days)
	@$(LAB) purge $(if $(UNUSED),--unused $(UNUSED))

# A bare Debian has no Python.
$(PYTHON):
	@if [ "$$(id -u)" = 0 ]; then as=; else as=sudo; fi; \
	{ $$as apt-get update -qq && $$as apt-get install -y -qq python3; } >/dev/null || \
	{ echo 'error: Python 3.11 is needed; as root run: apt-get install python3' >&2; exit 1; }
