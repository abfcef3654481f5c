// SPDX-License-Identifier: GPL-2.0
//! The small ioctls: what each returns, and its errno for every kind of bad input.

use super::*;

case!(version_fault, ["IOCTL-VERSION"], |t| assert!(is_fault(t.opened().ioctl_fault(BINDER_VERSION))));
case!(max_threads_fault, ["IOCTL-SET_MAX_THREADS"], |t| assert!(is_fault(
    t.opened().ioctl_fault(BINDER_SET_MAX_THREADS)
)));
case!(write_read_fault, ["IOCTL-WRITE_READ"], |t| assert_eq!(
    t.opened().ioctl_fault(BINDER_WRITE_READ),
    Err(Errno::EFAULT)
));
case!(node_debug_info_fault, ["IOCTL-GET_NODE_DEBUG_INFO"], |t| assert_eq!(
    t.opened().ioctl_fault(BINDER_GET_NODE_DEBUG_INFO),
    Err(Errno::EFAULT)
));
case!(node_info_for_ref_fault, ["IOCTL-GET_NODE_INFO_FOR_REF"], |t| assert_eq!(
    t.manager().ioctl_fault(BINDER_GET_NODE_INFO_FOR_REF),
    Err(Errno::EFAULT)
));

case!(version_is_eight, ["ABI-1", "IOCTL-VERSION"], |t| {
    let version = t.opened().ioctl(BINDER_VERSION, BinderVersion { protocol_version: -1 });
    assert_eq!(version, Ok(BinderVersion { protocol_version: PROTOCOL_VERSION }));
});

/// The incumbents disagree on the errno of an unreadable argument here.
fn is_fault(result: nix::Result<()>) -> bool {
    matches!(result, Err(Errno::EINVAL | Errno::EFAULT))
}

case!(unknown_commands_are_invalid, ["IOCTL-1"], Stage::opened, |t, port| {
    for number in [0, plain(b'b', 0), plain(b'b', 2), plain(b'b', 10), write::<u32>(b'b', 99), u32::MAX >> 1]
    {
        assert_eq!(port.ioctl(number, [0u8; 16384]).err(), Some(Errno::EINVAL), "{number:#x}");
    }
    // A thread's first contact with the driver may be a wrong one.
    let thread = port.thread();
    assert_eq!(thread.ioctl(plain(b'b', 0), 0u32).err(), Some(Errno::EINVAL));
});

case!(match_is_on_the_whole_number, ["IOCTL-1"], Stage::opened, |t, port| {
    let wrong = [
        read_write::<u64>(b'b', 9),
        write::<BinderVersion>(b'b', 9),
        read_write::<BinderVersion>(b'c', 9),
        read_write::<[u64; 5]>(b'b', 1),
        write::<u64>(b'b', 5),
        plain(b'b', 8),
    ];
    for number in wrong {
        assert_eq!(port.ioctl(number, [0u64; 8]).err(), Some(Errno::EINVAL), "{number:#x}");
    }
});

case!(never_implemented_commands_are_invalid, ["IOCTL-1"], Stage::opened, |t, port| {
    assert_eq!(port.ioctl(BINDER_SET_IDLE_TIMEOUT, 0i64).err(), Some(Errno::EINVAL));
    assert_eq!(port.ioctl(BINDER_SET_IDLE_PRIORITY, 0i32).err(), Some(Errno::EINVAL));
});

case!(max_threads_takes_any_number, ["IOCTL-SET_MAX_THREADS"], Stage::opened, |t, port| {
    for number in [0, 1, 15, u32::MAX, 3] {
        assert_eq!(port.ioctl(BINDER_SET_MAX_THREADS, number), Ok(number));
    }
});

case!(thread_exit_always_succeeds, ["IOCTL-THREAD_EXIT", "TREL-3"], Stage::opened, |t, port| {
    for _ in 0..3 {
        assert_eq!(port.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    }
    assert_eq!(port.ioctl_fault(BINDER_THREAD_EXIT), Ok(()), "the argument is not looked at");
    assert!(port.ioctl(BINDER_VERSION, BinderVersion::default()).is_ok(), "the thread is known anew");
});

case!(node_debug_info_walks_own_nodes_upwards, ["IOCTL-GET_NODE_DEBUG_INFO"], pair, |t, (manager, owner)| {
    let parcel = parcel_of([0x3000, 0x1000, 0x2000].map(|ptr| FlatBinderObject::binder(ptr, ptr + 1)));
    let call = owner.call(&manager, 0, 0, &parcel);
    manager.answer(&owner, &empty());
    let mut found = Vec::new();
    let mut last = 0;
    loop {
        let info = owner.node_debug_info(last);
        if info.ptr == 0 {
            assert_eq!(info, BinderNodeDebugInfo::default());
            break;
        }
        assert_eq!((info.has_strong_ref, info.has_weak_ref), (1, 1), "both were returned before the reply");
        found.push((info.ptr, info.cookie));
        last = info.ptr;
    }
    assert_eq!(found, [(0x1000, 0x1001), (0x2000, 0x2001), (0x3000, 0x3001)]);
    manager.free(&call);
});

case!(node_debug_info_without_nodes_is_zero, ["IOCTL-GET_NODE_DEBUG_INFO"], |t| {
    assert_eq!(t.opened().node_debug_info(0), BinderNodeDebugInfo::default());
    // The manager's node has pointer 0, and only pointers above the given one are looked for.
    assert_eq!(t.manager().node_debug_info(0), BinderNodeDebugInfo::default());
});

fn counts_of(port: &Port, handle: u32) -> nix::Result<(u32, u32)> {
    let question = BinderNodeInfoForRef { handle, ..Default::default() };
    let info = port.ioctl(BINDER_GET_NODE_INFO_FOR_REF, question)?;
    let BinderNodeInfoForRef { strong_count, weak_count, .. } = info;
    assert_eq!(info, BinderNodeInfoForRef { strong_count, weak_count, ..question }, "no other field is set");
    Ok((strong_count, weak_count))
}

case!(node_info_for_ref_counts, ["IOCTL-GET_NODE_INFO_FOR_REF"], pair, |t, (manager, owner)| {
    let call = owner.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    let handle = manager.object(&call).handle();
    let expect = |counts, why| counted(t, &manager, handle, counts, why);
    expect((1, 0), "the handle, which the buffer keeps");
    manager.send(|c| c.acquire(handle).acquire(handle).increfs(handle));
    expect((1, 0), "a handle counts once, however often it is held");
    manager.free(&call);
    expect((1, 0), "the manager's own counts keep it");
    manager.answer(&owner, &empty());
    expect((2, 1), "the owner has read a request for each count, and not confirmed it");
    owner.send(|c| c.increfs_done(0x10, 0));
    expect((2, 0), "it has taken the weak one");
    owner.send(|c| c.acquire_done(0x10, 0));
    expect((1, 0), "and the strong one");
    manager.send(|c| c.release(handle));
    expect((1, 0), "one strong count of two is left");
    manager.send(|c| c.release(handle));
    let weak = counts_of(&manager, handle);
    t.known_difference(Driver::Upstream, "a weak handle is told of", weak == Err(Errno::EINVAL));
    manager.send(|c| c.decrefs(handle));
    assert!(counts_of(&manager, handle).is_err(), "the handle is gone");
});

/// Checks the counts that the manager reads of a node.
#[track_caller]
fn counted(t: &Stage, manager: &Port, handle: u32, counts: (u32, u32), why: &str) {
    let seen = counts_of(manager, handle);
    let words = format!("{why}: {seen:?} instead of {counts:?}");
    t.known_difference(Driver::Upstream, &words, seen == Ok(counts));
}

case!(node_info_for_ref_counts_all_holders, ["IOCTL-GET_NODE_INFO_FOR_REF", "NODE-4"], |t| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let on_owner = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0), &holder);
    let handle = give_in_a_call(&manager, &owner, FlatBinderObject::binder(0x10, 0));
    let expect = |counts, why| counted(t, &manager, handle, counts, why);
    expect((2, 0), "two handles");
    let call = holder.call(&owner, on_owner, 0, &object(FlatBinderObject::weak_handle(on_owner)));
    expect((3, 1), "a call, and its buffer has a weak object that has come home");
    holder.free(&owner.answer(&holder, &empty()));
    expect((3, 1), "until the buffer is freed");
    owner.free(&call);
    expect((2, 0), "which gives both back");
    let call = holder.call(&owner, on_owner, 0, &object(FlatBinderObject::strong_handle(on_owner)));
    expect((4, 0), "the same with a strong object");
    finish(&owner, &holder, &call);
    expect((2, 0), "it is given back as well");
    holder.send(|c| c.increfs(on_owner).release(on_owner));
    expect((1, 0), "a handle that is weak");
    holder.send(|c| c.decrefs(on_owner));
    expect((1, 0), "and none");
});

case!(node_info_for_ref_after_failures, ["IOCTL-GET_NODE_INFO_FOR_REF", "OBJ-10"], |t| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    let handle = give_in_a_call(&manager, &owner, FlatBinderObject::binder(0x10, 0));
    owner.settle_counts();
    let here = crate::port::give_in_a_reply(&manager, &holder, FlatBinderObject::strong_handle(handle));
    let expect = |why| counted(t, &manager, handle, (2, 0), why);
    // Translated, and then the next object is none.
    for good in [FlatBinderObject::strong_handle(here), FlatBinderObject::weak_handle(here)] {
        let parcel = parcel_of([good, FlatBinderObject { kind: 1, ..good }]);
        for target in [0, here] {
            assert_eq!(holder.refused(&holder.place(target, 0, &parcel)), Return::FailedReply);
            expect("a call that failed");
        }
        let call = holder.call(&manager, 0, 0, &empty());
        let good = FlatBinderObject { binder: u64::from(handle), ..good };
        manager.reply(&parcel_of([good, FlatBinderObject { kind: 1, ..good }]));
        assert_eq!(holder.wait_refusal(), Return::FailedReply);
        manager.free(&call);
        expect("a reply that failed");
    }
    manager.send(|c| c.release(handle));
    holder.send(|c| c.release(here));
    assert_eq!(owner.answer_counts().len(), 2, "nobody else holds it");
});

case!(node_info_for_ref_is_for_the_manager, ["IOCTL-GET_NODE_INFO_FOR_REF"], |t| {
    let (manager, owner, holder) = (t.manager(), t.client(), t.client());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &holder);
    assert_eq!(counts_of(&holder, handle), Err(Errno::EPERM));
    drop(manager);
});

case!(node_info_for_ref_wants_zeros, ["IOCTL-GET_NODE_INFO_FOR_REF"], pair, |t, (manager, owner)| {
    let handle = give_in_a_call(&manager, &owner, FlatBinderObject::binder(0x10, 0));
    let base = BinderNodeInfoForRef { handle, ..Default::default() };
    assert!(manager.ioctl(BINDER_GET_NODE_INFO_FOR_REF, base).is_ok(), "the other fields are wrong");
    let wrong = [
        BinderNodeInfoForRef { strong_count: 1, ..base },
        BinderNodeInfoForRef { weak_count: 1, ..base },
        BinderNodeInfoForRef { reserved1: 1, ..base },
        BinderNodeInfoForRef { reserved2: 1, ..base },
        BinderNodeInfoForRef { reserved3: 1, ..base },
    ];
    for info in wrong {
        assert_eq!(manager.ioctl(BINDER_GET_NODE_INFO_FOR_REF, info).err(), Some(Errno::EINVAL), "{info:?}");
    }
});

case!(node_info_for_ref_of_an_unknown_handle, ["IOCTL-GET_NODE_INFO_FOR_REF"], |t| {
    let result = counts_of(&t.manager(), NO_HANDLE);
    t.known_difference(Driver::Upstream, "an unknown handle is ENOENT", result == Err(Errno::EINVAL));
    assert!(result.is_err());
});

/// Sends a call that fails with `EINVAL`, and leaves the extended error behind.
fn fail(t: &Stage, port: &Port) {
    let errno = if t.upstream() { Errno::ENOENT } else { Errno::EINVAL };
    assert_eq!(port.failure(&port.place(NO_HANDLE, 0, &empty())), failed(errno));
}

case!(lesson_r08_extended_error_is_read_once, ["IOCTL-GET_EXTENDED_ERROR", "TXN-2", "TXN-7"], |t| {
    let port = t.client();
    assert_eq!(port.extended_error(), NO_ERROR);
    fail(t, &port);
    assert_eq!(port.extended_error(), NO_ERROR);
});

case!(extended_error_after_success, ["TXN-2"], pair, |t, (manager, client)| {
    assert_eq!(client.refused(&client.place(NO_HANDLE, 0, &empty())), Return::FailedReply);
    client.round_trip(0, &manager, &empty(), &empty());
    let error = client.ioctl(BINDER_GET_EXTENDED_ERROR, BinderExtendedError::default()).expect("an answer");
    assert_eq!((error.command, error.param), NO_ERROR, "a later success replaces an earlier failure");
    assert_ne!(error.id, 0, "the id is that of the transaction");
});

case!(extended_error_belongs_to_the_thread, ["IOCTL-GET_EXTENDED_ERROR"], Stage::client, |t, port| {
    let other = port.thread();
    assert_eq!(port.refused(&port.place(NO_HANDLE, 0, &empty())), Return::FailedReply);
    assert_eq!(other.extended_error(), NO_ERROR);
    assert_ne!(port.extended_error(), NO_ERROR);
});

case!(extended_error_fault_resets, ["IOCTL-GET_EXTENDED_ERROR"], Stage::client, |t, port| {
    assert_eq!(port.refused(&port.place(NO_HANDLE, 0, &empty())), Return::FailedReply);
    assert_eq!(port.ioctl_fault(BINDER_GET_EXTENDED_ERROR), Err(Errno::EFAULT));
    t.known_difference(Driver::Upstream, "faults keep the extended error", port.extended_error() == NO_ERROR);
});

/// `ioctl(2)` by the gate of 32-bit tasks, for a 64-bit task; the argument lies below 2 GiB.
#[cfg(target_arch = "x86_64")]
fn ioctl_of_32_bits(device: &impl std::os::fd::AsRawFd, command: u32, argument: &mut u32) -> Result<(), i32> {
    use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
    const NUMBER: u64 = 54;
    let (size, flags) = (std::num::NonZeroUsize::MIN, MapFlags::MAP_PRIVATE | MapFlags::MAP_32BIT);
    // SAFETY: a new anonymous mapping replaces nothing.
    let place = unsafe { mmap_anonymous(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) };
    let place = place.expect("memory below 2 GiB").cast::<u32>();
    // SAFETY: the mapping is ours alone, has room for the number, and is aligned to a page.
    unsafe { place.write(*argument) };
    let mut result = NUMBER;
    // SAFETY: the call reads and writes at most the number. The compiler reserves RBX, so its
    // content is put back. The gate clears the registers that are named as lost.
    unsafe {
        std::arch::asm!("xchg {fd}, rbx", "int 0x80", "xchg {fd}, rbx", fd = inout(reg) device.as_raw_fd() as u64 => _,
            inout("rax") result, in("rcx") u64::from(command), in("rdx") place.as_ptr() as u64,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        *argument = place.read();
    }
    match result as i32 {
        0 => Ok(()),
        errno => Err(-errno),
    }
}

#[cfg(target_arch = "x86_64")]
case!(entry_of_32_bit_tasks, ["ABI-2"], |t| {
    let processor = std::fs::read_to_string("/proc/cpuinfo").expect("processors");
    // The gate of a process there would lead to the host.
    t.needs("a processor of its own", !processor.contains("User Mode Linux"));
    let device = File::options().read(true).write(true).open(t.device("binder")).expect("a device");
    let mut version = 0;
    assert_eq!(ioctl_of_32_bits(&device, BINDER_VERSION, &mut version), Ok(()));
    assert_eq!(version, PROTOCOL_VERSION as u32);
    assert_eq!(ioctl_of_32_bits(&device, plain(b'b', 0), &mut version), Err(libc::EINVAL));
});
