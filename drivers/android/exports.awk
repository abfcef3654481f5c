# SPDX-License-Identifier: GPL-2.0
# Print what of the third file, `exports`, a kernel lacks: the first file is its
# include/config/auto.conf, the second one its Module.symvers.
FILENAME == ARGV[1] { split($0, setting, "="); is_set[setting[1]] = 1; next }
FILENAME == ARGV[2] { is_exported[$2] = 1; next }
/^#/ || $1 in is_exported || !("CONFIG_" $2 in is_set) { next }
!missing++ { print "error: this kernel does not export to modules what the driver needs:" }
{
	name = $1
	$1 = $2 = ""
	print "  " name " for" substr($0, 2)
}
END {
	if (missing) {
		print "It can have the driver built in: tools/install-into-kernel lays it into a tree."
		exit 1
	}
}
