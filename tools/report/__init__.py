# SPDX-License-Identifier: GPL-2.0
"""The page that shows what binder-bench measured, and the profiles in it."""
