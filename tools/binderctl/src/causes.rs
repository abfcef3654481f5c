// SPDX-License-Identifier: GPL-2.0
//! Causes of failed transactions, by return code and errno.

use binder_logs::{Kind, LogEntry};
use binder_sys::codes;
use nix::errno::Errno;

/// The meaning of a code and an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    pub what: &'static str,
    pub why: &'static str,
    pub next_step: &'static str,
}

/// The causes that are known. One without an errno stands for all that its code has no other entry for.
const CAUSES: [(u32, Option<Errno>, Cause); 19] = [
    (codes::BR_FAILED_REPLY, Some(Errno::ENOSPC), Cause {
        what: "there was no room for the data in the space of the process that was to receive them",
        why: "the data are larger than that space; or the receiver has not given earlier buffers back; or oneway calls have used the half of the space that is theirs, or the sender its share of it",
        next_step: "the message of Rust Binder gives the reason: dmesg. Send less at once (pass large data in a file or shared memory); see who fills the space: binderctl doctor",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EINVAL), Cause {
        what: "the call is invalid",
        why: "the handle is none of the sender's, or held only weakly; or a process called itself; or the data name an object that is malformed, unaligned or out of order; or the receiver requests the sender's security context, and the active security module (such as AppArmor) has none",
        next_step: "is the proxy used after it was released? Did the sender keep a handle over fork or exec? Else the driver's message names the object or the security context: dmesg",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::ENOENT), Cause {
        what: "the handle is none of the sender's",
        why: "it was released, or belongs to another process",
        next_step: "is the proxy used after it was released, or after fork?",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EPERM), Cause {
        what: "the sender was not allowed to do this",
        why: "the security module (SELinux) refuses the call, an object or a file in it; or there is a file in it that the receiver does not take",
        next_step: "look for denials of the security module (dmesg, audit log); a node that is to take files needs FLAT_BINDER_FLAG_ACCEPTS_FDS, a call that is to be answered with files TF_ACCEPT_FDS",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EPROTO), Cause {
        what: "the call or reply came out of turn",
        why: "a thread replied that serves no call, or made a call while it waited for a reply or had a call of its own to read",
        next_step: "one thread must read until it has its reply before it makes another call: is a descriptor of the device used by two threads as one?",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::ENOMEM), Cause {
        what: "there was no memory for it",
        why: "the machine is short of memory; or the process is at the limit of its nodes or handles, if the administrator has set one (max_nodes, max_refs)",
        next_step: "see how many nodes and handles there are: binderctl top; limits are in /sys/module/*/parameters",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EFAULT), Cause {
        what: "the data could not be read or written",
        why: "an address of the data, of the list of objects, or of what an object points to is not mapped; or an object lies outside of the data or before the one it follows",
        next_step: "check the sizes and addresses that the sender gives; does another thread free the data during the call?",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EBADF), Cause {
        what: "there is a file in the call that is not open",
        why: "the descriptor was closed before the call was made",
        next_step: "keep the file open until the call has returned",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EMFILE), Cause {
        what: "the receiver has no descriptor left for a file in the call",
        why: "it is at its limit of open files",
        next_step: "does the receiver close the files that it gets? Raise its limit: ulimit -n",
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EOPNOTSUPP), Cause {
        what: "the receiver requests the caller's security context, and there is none",
        why: "no security module is active that has contexts",
        next_step: BOOT_WITH_ONE,
    }),
    (codes::BR_FAILED_REPLY, Some(Errno::EOVERFLOW), Cause {
        what: "a count has reached its end",
        why: "an object is held as often as can be counted",
        next_step: "who takes references and never releases them? binderctl graph",
    }),
    (codes::BR_FAILED_REPLY, None, Cause {
        what: "the call or reply could not be delivered",
        why: "the driver refused it, or the reply to it could not be made or delivered",
        next_step: "the driver's message has details: dmesg",
    }),
    (codes::BR_DEAD_REPLY, Some(Errno::EINVAL), Cause {
        what: "the object that was called is gone",
        why: "its process has ended; or, if handle 0 was called, there is no context manager",
        next_step: "request a death notification (linkToDeath), and get a new object from the service manager; for handle 0: is the service manager running?",
    }),
    (codes::BR_DEAD_REPLY, Some(Errno::ESRCH), Cause {
        what: "the process that was called cannot receive anything",
        why: "it has not mapped the device, has unmapped it, or is ending",
        next_step: "has the receiver started? libbinder maps the device when ProcessState is made",
    }),
    (codes::BR_DEAD_REPLY, None, Cause {
        what: "the process that was called ended before it replied",
        why: "the process or its thread has exited, crashed or been killed while it had the call",
        next_step: "why did it end? Look at its log (logcat, journalctl, dmesg)",
    }),
    (codes::BR_FROZEN_REPLY, None, Cause {
        what: "the process that was called is frozen",
        why: "a frozen process takes no calls that wait for a reply",
        next_step: "wait until it is thawed (with BC_REQUEST_FREEZE_NOTIFICATION), make the call oneway, or do not freeze it while it is needed",
    }),
    (codes::BR_ONEWAY_SPAM_SUSPECT, None, Cause {
        what: "the call was delivered, but its sender has too many pending oneway calls",
        why: "the receiver is slower than this sender, and its space for oneway calls is nearly used up",
        next_step: "send less often, wait for a reply now and then, or make the receiver faster; the next calls may fail for lack of space",
    }),
    (codes::BR_TRANSACTION_PENDING_FROZEN, None, Cause {
        what: "the oneway call waits, because the process that was called is frozen",
        why: "a frozen process gets its oneway calls when it is thawed",
        next_step: "nothing, unless the process should not be frozen; if only the last call matters, send it with TF_UPDATE_TXN",
    }),
    (codes::BR_ERROR, None, Cause {
        what: "the driver had no memory for the request",
        why: "the machine is short of memory",
        next_step: "look for what uses the memory",
    }),
];

const BOOT_WITH_ONE: &str = "boot with one that has, such as SELinux (security=selinux), or have the node made without FLAT_BINDER_FLAG_TXN_SECURITY_CTX";

/// The cause of a call that came as far as its receiver, has no objects, and is invalid. Of the causes of
/// `EINVAL` all others are about handles and objects, or impossible sizes.
const WITHOUT_OBJECTS: Cause = Cause {
    what: "the receiver requests the caller's security context, and there is none",
    why: "the active security module (such as AppArmor) has none; or, which is rare, the sizes in the call are impossible",
    next_step: BOOT_WITH_ONE,
};

/// The text for a code that no driver returns for a failed transaction.
const UNKNOWN: Cause = Cause {
    what: "the driver gave a code that this program does not list",
    why: "the driver may be newer than this program",
    next_step: "the driver's message may have details: dmesg",
};

/// The cause behind a return code and a negative errno or 0.
pub fn of(code: u32, errno: Option<i32>) -> Cause {
    let errno = errno.filter(|&errno| errno < 0).map(|errno| Errno::from_raw(-errno));
    let find = |wanted| CAUSES.iter().find(|(known, errno, _)| (*known, *errno) == (code, wanted));
    errno.and_then(|errno| find(Some(errno))).or_else(|| find(None)).map_or(UNKNOWN, |(_, _, cause)| *cause)
}

/// The cause of a failure that a log has.
pub fn of_entry(entry: &LogEntry) -> Cause {
    let is_plain = entry.kind != Kind::Reply && entry.to.process != 0 && entry.offsets_size == 0;
    match (entry.return_error, entry.errno) {
        (codes::BR_FAILED_REPLY, errno) if is_plain && errno == -(Errno::EINVAL as i32) => WITHOUT_OBJECTS,
        (code, errno) => of(code, Some(errno)),
    }
}

/// The name of a return code.
pub fn code_name(code: u32) -> String {
    codes::return_name(code).map_or_else(|| format!("BR {code:#x}"), str::to_owned)
}

/// The name of an errno, which drivers give as a negative number; none of 0.
pub fn errno_name(errno: i32) -> Option<String> {
    match errno.checked_neg().map(Errno::from_raw) {
        _ if errno == 0 => None,
        Some(known) if known != Errno::UnknownErrno => Some(format!("{known:?}")),
        _ => Some(errno.to_string()),
    }
}

/// Reads `29201/-28`, as drivers print it, or `BR_FAILED_REPLY/ENOSPC`.
pub fn parse(text: &str) -> Option<(u32, i32)> {
    let (code, errno) = text.split_once('/')?;
    let code = code
        .parse()
        .ok()
        .or_else(|| codes::RETURNS.iter().find(|(_, name)| *name == code).map(|(code, _)| *code))?;
    let named = || {
        (1..256).map(Errno::from_raw).find(|known| format!("{known:?}") == errno).map(|known| -(known as i32))
    };
    let errno = errno.parse().ok().or_else(named)?;
    Some((code, if errno > 0 { -errno } else { errno }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_incumbents_print_is_put_into_words() {
        assert_eq!(parse("29201/-28"), Some((codes::BR_FAILED_REPLY, -28)));
        assert_eq!(parse("29201/-28"), parse("BR_FAILED_REPLY/ENOSPC"));
        assert_eq!(parse("BR_DEAD_REPLY/0"), Some((codes::BR_DEAD_REPLY, 0)));
        for wrong in ["29201", "BR_WHAT/1", "BR_FAILED_REPLY/EWHAT", "/"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_errno_that_is_not_in_the_table_has_the_words_of_its_code() {
        assert!(of(codes::BR_FAILED_REPLY, Some(-28)).what.contains("no room"));
        assert_eq!(of(codes::BR_FAILED_REPLY, Some(-200)), of(codes::BR_FAILED_REPLY, None));
        assert_eq!(of(codes::BR_FROZEN_REPLY, Some(0)), of(codes::BR_FROZEN_REPLY, Some(-22)));
        assert_eq!(of(0, Some(-22)), UNKNOWN);
    }

    #[test]
    fn each_entry_is_reached() {
        for (code, errno, cause) in CAUSES {
            assert_eq!(of(code, errno.map(|errno| -(errno as i32))), cause);
        }
    }

    #[test]
    fn what_is_not_known_has_its_number() {
        assert_eq!(code_name(1), "BR 0x1");
        assert_eq!((errno_name(0), errno_name(i32::MIN)), (None, Some("-2147483648".into())));
    }
}
