# SPDX-License-Identifier: GPL-2.0
# The entry to all commands; their code is in tools/lab. NAME=VALUE on the command line is the option
# --name=VALUE there: `make help TARGET` lists those of a target.

PYTHON := /usr/bin/python3
LAB := PYTHONPATH=tools $(PYTHON) -B -m lab
# For the environment, not for a target.
ENVIRONMENT := RUST_BINDER_CACHE CARGO_HOME CI PYTHON
NAMES := $(filter-out $(ENVIRONMENT),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
quoted = '$(subst ','\'',$(1))'
OPTIONS = $(foreach name,$(NAMES),--$(shell echo $(name) | tr A-Z_ a-z-)=$(call quoted,$($(name))))
TARGETS := bench test torture contract check boot exec module binderctl deb patches kernel install doc release goals growth retention inversion clean purge

.DEFAULT_GOAL := help
.PHONY: help $(TARGETS)

ifeq ($(firstword $(MAKECMDGOALS)),help)
TOPIC := $(word 2,$(MAKECMDGOALS))

help: $(if $(TOPIC),$(PYTHON))
	@$(if $(TOPIC),$(LAB) $(TOPIC) --help,cat tools/lab/help.txt)

$(TOPIC): help
	@:
else
help:
	@cat tools/lab/help.txt

$(TARGETS): $(PYTHON)
	@$(LAB) $@ $(OPTIONS)
endif

# A bare Debian has no Python.
$(PYTHON):
	@if [ "$$(id -u)" = 0 ]; then as=; else as=sudo; fi; \
	{ $$as apt-get update -qq && $$as apt-get install -y -qq python3; } >/dev/null || \
	{ echo 'error: Python 3.11 is needed; as root run: apt-get install python3' >&2; exit 1; }
