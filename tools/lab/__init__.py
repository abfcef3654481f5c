# SPDX-License-Identifier: GPL-2.0
"""The orchestrator behind the Makefile: from a bare Debian 12 to a booted guest with a verdict.

Start reading at `__main__.py`; each module is one idea, named by its file.
"""
