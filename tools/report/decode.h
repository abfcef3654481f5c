/* SPDX-License-Identifier: GPL-2.0 */
/* What plugins have to know of an instruction of x86-64. */
#ifndef REPORT_DECODE_H
#define REPORT_DECODE_H

#include "plugin.h"

struct decoded {
	/* It has a LOCK prefix. */
	bool locked;
	/* It exchanges a register with memory, which locks without a prefix. */
	bool exchange;
	bool call;
	bool ret;
	bool pause;
};

/* Legacy prefixes in any order, LOCK among them, then perhaps REX, then the opcode. */
static inline struct decoded decode(const struct qemu_plugin_insn *insn)
{
	static const uint8_t others[] = { 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3 };
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	const uint8_t *end = byte + qemu_plugin_insn_size(insn);
	struct decoded is = { 0 };
	bool repeats = false;

	for (; byte < end && (*byte == 0xf0 || memchr(others, *byte, sizeof(others))); byte++) {
		is.locked |= *byte == 0xf0;
		repeats |= *byte == 0xf3;
	}
	is.pause = repeats && byte < end && *byte == 0x90;
	if (byte < end && (*byte & 0xf0) == 0x40)
		byte++;
	if (byte < end) {
		is.ret = *byte == 0xc3 || *byte == 0xc2;
		is.call = *byte == 0xe8 || (*byte == 0xff && byte + 1 < end && (byte[1] >> 3 & 7) == 2);
		is.exchange = (*byte & 0xfe) == 0x86 && byte + 1 < end && byte[1] >> 6 != 3;
	}
	return is;
}

#endif
