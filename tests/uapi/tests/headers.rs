// SPDX-License-Identifier: GPL-2.0
//! Our UAPI headers, compared in each name and byte with the system's, the contract and binder-sys.
//!
//! The C compiler reads the headers: a generated C program prints a line for each constant, struct
//! and member.

use binder_uapi_test::{members, CONSTANTS, STRUCTS};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

const HEADERS: [&str; 2] = ["linux/android/binder.h", "linux/android/binderfs.h"];

/// The headers of this repository.
static OURS: LazyLock<Abi> = LazyLock::new(|| {
    let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/uapi");
    Abi::probed("ours", headers, &["-I", headers])
});

/// The headers of the machine's C library. Only the kernel defines the macro by which one of them
/// packs a struct.
static SYSTEM: LazyLock<Abi> =
    LazyLock::new(|| Abi::probed("system", "/usr/include", &["-D__packed=__attribute__((packed))"]));

/// Everything that a set of headers defines.
#[derive(Debug, Default)]
struct Abi {
    constants: BTreeMap<String, u64>,
    structs: BTreeMap<String, Layout>,
}

/// Size and alignment of a struct, and its members by name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    size: usize,
    align: usize,
    fields: BTreeMap<String, Field>,
}

/// The offset of a struct's member, and its size.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Abi {
    /// Compiles and runs a program that prints what the headers in a folder define.
    fn probed(name: &str, headers: &str, flags: &[&str]) -> Self {
        let read = |header| fs::read_to_string(Path::new(headers).join(header)).expect(header);
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = program.with_extension("c");
        fs::write(&source, program_for(&HEADERS.map(read).concat())).expect("the source");
        let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
        run(Command::new(compiler).args(flags).arg(&source).arg("-o").arg(&program));
        Self::parse(&run(&mut Command::new(program)))
    }

    fn parse(text: &str) -> Self {
        let mut abi = Self::default();
        let number = |word: &str| word.parse().expect("a decimal number");
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["const", name, value] => drop(abi.constants.insert(name.into(), value.parse().expect(line))),
                ["struct", name, size, align] => {
                    let (size, align) = (number(size), number(align));
                    abi.structs.insert(name.into(), Layout { size, align, ..Layout::default() });
                }
                ["field", name, member, offset, size, signed] => {
                    let (offset, size, signed) = (number(offset), number(size), signed == "1");
                    let layout = abi.structs.get_mut(name).expect("a struct comes before its members");
                    layout.fields.insert(member.into(), Field { offset, size, signed });
                }
                _ => panic!("the probe printed {line:?}"),
            }
        }
        abi
    }
}

fn program_for(text: &str) -> String {
    let includes = HEADERS.map(|header| format!("#include <{header}>\n")).concat();
    let constants = constants(text).into_iter().map(|name| format!("CONST({name});\n"));
    let structs = text.lines().filter_map(|line| line.strip_prefix("struct ")?.strip_suffix(" {"));
    let structs = structs.map(|name| {
        let listed = STRUCTS.iter().find(|(listed, ..)| *listed == name).map_or("", |(.., members)| members);
        let listed = members(listed).map(|(member, _)| format!("FIELD({name}, {member});\n"));
        format!("STRUCT({name});\n{}", listed.collect::<String>())
    });
    format!(
        r#"#include <stddef.h>
#include <stdio.h>
{includes}
#define CONST(name) printf("const %s %llu\n", #name, (unsigned long long)(name))
#define STRUCT(name) printf("struct %s %zu %zu\n", #name, sizeof(struct name), _Alignof(struct name))
#define FIELD(name, member) printf("field %s %s %zu %zu %d\n", #name, #member, \
    offsetof(struct name, member), sizeof(((struct name *)0)->member), \
    (__typeof__(((struct name *)0)->member))-1 < 0)
int main(void)
{{
{}{}}}
"#,
        constants.collect::<String>(),
        structs.collect::<String>(),
    )
}

/// All enumerators and macros with a value, by their definitions.
fn constants(text: &str) -> BTreeSet<&str> {
    let name = |line| match str::strip_prefix(line, "#define") {
        Some(definition) => {
            let mut words = definition.split_whitespace();
            words.next().filter(|_| words.next().is_some())
        }
        None => line.split_once('=')?.0.split_whitespace().last(),
    };
    let is_name = |name: &&str| {
        let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(is_part)
    };
    text.lines().filter_map(name).filter(is_name).collect()
}

/// Runs a command to its end and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{complaint}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Programs built with the system's headers and with our headers use one ABI.
#[test]
fn all_that_the_system_defines_is_the_same_here() {
    assert!(SYSTEM.constants.len() > 60, "the system's headers were not parsed");
    for (name, value) in &SYSTEM.constants {
        assert_eq!(OURS.constants.get(name), Some(value), "{name}");
    }
    for (name, layout) in &SYSTEM.structs {
        assert_eq!(OURS.structs.get(name), Some(layout), "struct {name}");
    }
}

/// Newer constants than the system's headers have are compared with the contract alone.
#[test]
fn all_that_the_contract_numbers_is_so_here() {
    for (name, value) in CONSTANTS {
        assert_eq!(OURS.constants.get(*name), Some(value), "{name}");
    }
    for (name, size, listed) in STRUCTS {
        let layout = OURS.structs.get(*name).unwrap_or_else(|| panic!("no struct {name}"));
        assert_eq!(layout.size, *size, "size of struct {name}");
        for (member, offset) in members(listed) {
            assert_eq!(layout.fields[member].offset, offset, "{name}.{member}");
        }
    }
}

/// Each constant and each struct that we define is vouched for by one of the two above.
#[test]
fn nothing_here_is_of_our_own_making() {
    for name in OURS.constants.keys() {
        let known = CONSTANTS.iter().any(|(listed, _)| listed == name);
        assert!(known || SYSTEM.constants.contains_key(name), "{name} is known nowhere else");
    }
    let listed: BTreeSet<_> = STRUCTS.iter().map(|(name, ..)| *name).collect();
    assert!(OURS.structs.keys().all(|name| listed.contains(name.as_str())), "{listed:?}");
}

/// The comparison sees every member: together they leave no byte of a struct uncovered.
#[test]
fn listed_members_fill_their_structs() {
    for (name, layout) in &OURS.structs {
        let mut covered = vec![false; layout.size];
        for field in layout.fields.values() {
            covered[field.offset..field.offset + field.size].fill(true);
        }
        // Arrays are listed by their ends, and embedded structs have a line of their own.
        match name.as_str() {
            "binder_transaction_data_sg" | "binder_transaction_data_secctx" => covered[..64].fill(true),
            "binderfs_device" => covered[..256].fill(true),
            // Padding before the first 64-bit member, in the one struct whose size depends on the ABI.
            "binder_pri_ptr_cookie" => covered[4..8].fill(true),
            _ => {}
        }
        let gaps: Vec<_> = (0..layout.size).filter(|&byte| !covered[byte]).collect();
        assert!(gaps.is_empty(), "struct {name}: no member listed for bytes {gaps:?}");
    }
}

/// The interface again in Rust, which tests and tools use: the same numbers, sizes and places.
#[test]
fn binder_sys_speaks_the_same_language() {
    use binder_sys::codes::{COMMANDS, RETURNS};
    use binder_sys::{ioctl::*, *};
    let of_header = |prefix: &str| OURS.constants.keys().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((COMMANDS.len(), RETURNS.len()), (of_header("BC_"), of_header("BR_")));
    macro_rules! constants {
        ($($name:ident),*) => { [$(($name, stringify!($name))),*] };
    }
    let ioctls = constants![
        BINDER_WRITE_READ,
        BINDER_SET_IDLE_TIMEOUT,
        BINDER_SET_MAX_THREADS,
        BINDER_SET_IDLE_PRIORITY,
        BINDER_SET_CONTEXT_MGR,
        BINDER_THREAD_EXIT,
        BINDER_VERSION,
        BINDER_GET_NODE_DEBUG_INFO,
        BINDER_GET_NODE_INFO_FOR_REF,
        BINDER_SET_CONTEXT_MGR_EXT,
        BINDER_FREEZE,
        BINDER_GET_FROZEN_INFO,
        BINDER_ENABLE_ONEWAY_SPAM_DETECTION,
        BINDER_GET_EXTENDED_ERROR,
        BINDER_CTL_ADD
    ];
    let types = [
        (ObjectType::BINDER, "BINDER_TYPE_BINDER"),
        (ObjectType::WEAK_BINDER, "BINDER_TYPE_WEAK_BINDER"),
        (ObjectType::HANDLE, "BINDER_TYPE_HANDLE"),
        (ObjectType::WEAK_HANDLE, "BINDER_TYPE_WEAK_HANDLE"),
        (ObjectType::FD, "BINDER_TYPE_FD"),
        (ObjectType::FDA, "BINDER_TYPE_FDA"),
        (ObjectType::PTR, "BINDER_TYPE_PTR"),
    ];
    for (number, name) in COMMANDS.iter().chain(RETURNS).chain(&ioctls).chain(&types) {
        assert_eq!(OURS.constants.get(*name), Some(&u64::from(*number)), "{name}");
    }
    macro_rules! layouts {
        ($($rust:ident $c:literal [$($field:ident $member:literal),*];)*) => {
            [$(($c, size_of::<$rust>(), vec![$(($member, std::mem::offset_of!($rust, $field))),*])),*]
        };
    }
    let layouts = layouts! {
        BinderWriteRead "binder_write_read" [write_buffer "write_buffer", read_size "read_size"];
        BinderTransactionData "binder_transaction_data" [cookie "cookie", code "code", sender_pid "sender_pid",
            data_size "data_size", offsets "data.ptr.offsets"];
        BinderTransactionDataSecctx "binder_transaction_data_secctx" [secctx "secctx"];
        BinderTransactionDataSg "binder_transaction_data_sg" [buffers_size "buffers_size"];
        FlatBinderObject "flat_binder_object" [binder "binder", cookie "cookie"];
        BinderFdObject "binder_fd_object" [fd "fd"];
        BinderBufferObject "binder_buffer_object" [parent "parent"];
        BinderFdArrayObject "binder_fd_array_object" [parent_offset "parent_offset"];
        BinderPtrCookie "binder_ptr_cookie" [];
        BinderHandleCookie "binder_handle_cookie" [cookie "cookie"];
        BinderVersion "binder_version" [];
        BinderNodeDebugInfo "binder_node_debug_info" [has_weak_ref "has_weak_ref"];
        BinderNodeInfoForRef "binder_node_info_for_ref" [];
        BinderFreezeInfo "binder_freeze_info" [];
        BinderFrozenStatusInfo "binder_frozen_status_info" [];
        BinderFrozenStateInfo "binder_frozen_state_info" [];
        BinderExtendedError "binder_extended_error" [];
        BinderfsDevice "binderfs_device" [major "major"];
    };
    for (name, size, fields) in layouts {
        let layout = &OURS.structs[name];
        assert_eq!(layout.size, size, "size of struct {name}");
        for (member, offset) in fields {
            assert_eq!(layout.fields[member].offset, offset, "{name}.{member}");
        }
    }
}
