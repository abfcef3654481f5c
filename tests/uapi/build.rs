// SPDX-License-Identifier: GPL-2.0

//! Asks the C compiler what two sets of headers say.
//!
//! For ours and for the system's, a C program is generated that prints one line for each thing the
//! headers define. What it prints is left in `OUT_DIR` for the tests.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use regex_lite::Regex;

include!("src/fields.rs");

const HEADERS: [&str; 2] = ["linux/android/binder.h", "linux/android/binderfs.h"];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let ours = root.join("../../include/uapi");
    println!("cargo:rerun-if-changed=src/fields.rs");

    // Outside of the kernel nothing defines the macro by which the system's header packs a struct.
    probe(
        "system",
        Path::new("/usr/include"),
        &["-D__packed=__attribute__((packed))"],
    );
    probe(
        "ours",
        &ours,
        &["-I", ours.to_str().expect("a path in UTF-8")],
    );
}

/// Writes `NAME.txt` with all that the headers below `dir` define.
fn probe(name: &str, dir: &Path, flags: &[&str]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let source = out.join(format!("{name}.c"));
    let program = out.join(format!("{name}.probe"));

    fs::write(&source, program_for(&read_headers(dir))).expect("OUT_DIR can be written");
    run(cc::Build::new()
        .get_compiler()
        .to_command()
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program));
    let printed = run(&mut Command::new(program));
    fs::write(out.join(format!("{name}.txt")), printed).expect("OUT_DIR can be written");
}

fn read_headers(dir: &Path) -> String {
    HEADERS
        .iter()
        .map(|header| {
            let path = dir.join(header);
            println!("cargo:rerun-if-changed={}", path.display());
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .collect()
}

/// One line each: `const NAME VALUE`, `struct NAME SIZE ALIGN`,
/// `field STRUCT MEMBER OFFSET SIZE SIGNED`.
fn program_for(text: &str) -> String {
    let mut c = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    for header in HEADERS {
        writeln!(c, "#include <{header}>").expect("a String takes all");
    }
    c.push_str(
        r#"
#define CONST(name) printf("const %s %#llx\n", #name, (unsigned long long)(name))
#define STRUCT(name) printf("struct %s %zu %zu\n", #name, sizeof(struct name), \
    _Alignof(struct name))
#define FIELD(name, member) printf("field %s %s %zu %zu %d\n", #name, #member, \
    offsetof(struct name, member), sizeof(((struct name *)0)->member), \
    (__typeof__(((struct name *)0)->member))-1 < 0)
int main(void)
{
"#,
    );
    for name in constants(text) {
        writeln!(c, "CONST({name});").expect("a String takes all");
    }
    for name in structs(text) {
        writeln!(c, "STRUCT({name});").expect("a String takes all");
        let members = FIELDS
            .iter()
            .find(|(listed, _)| *listed == name)
            .map_or(&[][..], |(_, m)| m);
        for member in members {
            writeln!(c, "FIELD({name}, {member});").expect("a String takes all");
        }
    }
    c + "}\n"
}

/// All enumerators and macros with a value, by their definitions.
fn constants(text: &str) -> BTreeSet<String> {
    captures(
        r"(?m)\b([A-Z][A-Z0-9_]*)\s*=[^=]|^#define[ \t]+([A-Z][A-Z0-9_]*)[ \t]+\S",
        text,
    )
}

fn structs(text: &str) -> BTreeSet<String> {
    captures(r"(?m)^struct\s+(\w+)\s*\{", text)
}

fn captures(pattern: &str, text: &str) -> BTreeSet<String> {
    Regex::new(pattern)
        .expect("a literal pattern")
        .captures_iter(text)
        .filter_map(|found| {
            found
                .iter()
                .skip(1)
                .flatten()
                .next()
                .map(|m| m.as_str().to_owned())
        })
        .collect()
}

/// Runs a command to its end and returns what it printed.
fn run(command: &mut Command) -> Vec<u8> {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}
