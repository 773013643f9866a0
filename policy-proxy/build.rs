//! How the sidecar is linked: packed relocations, and the functions that every proxy runs side by side.
//! Both are about resident memory (docs/performance.md). The program knows the profile it was built with.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

/// The functions that run at the start and under load, as `layout/record` finds them.
const FUNCTIONS: &str = "layout/functions.txt";

/// The profile that ships.
const SHIPPED: &str = "sidecar";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var("OUT_DIR").map_err(io::Error::other)?;
    let profile = profile(Path::new(&folder)).unwrap_or("unknown");
    println!("cargo::rustc-env=PORTCULLIS_PROFILE={profile}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return Ok(());
    }
    // 24 bytes each otherwise, all of them read at the start and resident from then on: 0.6 MB. Needs
    // glibc 2.36 where it runs.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    if profile == SHIPPED {
        println!("cargo::rerun-if-changed={FUNCTIONS}");
        let script = Path::new(&folder).join("layout.ld");
        fs::write(&script, layout(&fs::read_to_string(FUNCTIONS)?))?;
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    Ok(())
}

/// The name of the profile: cargo tells build scripts whether it is derived from `dev` or `release` alone,
/// but keeps their output below `<target>/<profile>/build`.
fn profile(out: &Path) -> Option<&str> {
    let build =
        out.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "build"))?;
    build.parent()?.file_name()?.to_str()
}

/// The kernel maps program text sixteen pages around each one that is touched, so that functions which
/// run, spread over eight megabytes, make six of them resident. Where the hash in a function's name is
/// another one than when it was recorded, its name alone places it, behind the others.
fn layout(functions: &str) -> String {
    let mut script = String::from("SECTIONS {\n.text.resident : {\n");
    let names = functions.lines().filter(|name| !name.is_empty());
    for name in names.clone() {
        // Writing to a string cannot fail.
        // A function that is seldom called by its author's word has a section of another name.
        for section in [".text", ".text.unlikely"] {
            let _ = writeln!(script, "*({section}.{name} {section}.{name}.llvm.*)");
        }
    }
    for name in names {
        if let Some((path, _)) = name.rsplit_once("17h") {
            let _ = writeln!(script, "*(.text.{path}17h*)");
        }
    }
    script.push_str("}\n} INSERT BEFORE .text;\n");
    script
}
