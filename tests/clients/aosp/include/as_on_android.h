/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before everything else: what AOSP's sources find through other headers on Android, where
 * the C library is bionic and the C++ library is libc++. Here they are glibc and libstdc++.
 */
#pragma once

#include <limits.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iomanip>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <variant>

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif
