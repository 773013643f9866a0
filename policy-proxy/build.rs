//! Link settings of the sidecar: packed relocations, and functions that run are placed next to each
//! other. Both reduce resident memory (docs/performance.md). The program records its build profile.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

/// Functions that run at start and under load, as `layout/record` records them.
const FUNCTIONS: &str = "layout/functions.txt";

/// The profile of releases.
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
    // Otherwise 24 bytes each, all of them read at start and resident from then on: 0.6 MB. Needs
    // glibc 2.36 at run time.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    if profile == SHIPPED {
        println!("cargo::rerun-if-changed={FUNCTIONS}");
        let script = Path::new(&folder).join("layout.ld");
        fs::write(&script, layout(&fs::read_to_string(FUNCTIONS)?))?;
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    Ok(())
}

/// The name of the profile, from the path: cargo tells build scripts only if it derives from `dev`
/// or `release`, but keeps their output below `<target>/<profile>/build`.
fn profile(out: &Path) -> Option<&str> {
    let build =
        out.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "build"))?;
    build.parent()?.file_name()?.to_str()
}

/// Linker script that places the functions that run next to each other. The kernel maps sixteen pages of program text around
/// each page that is touched: without an order, functions spread over eight megabytes make six of
/// them resident. A function whose name has another hash than when it was recorded is placed by its
/// name alone, behind the others.
fn layout(functions: &str) -> String {
    let mut script = String::from("SECTIONS {\n.text.resident : {\n");
    let names = functions.lines().filter(|name| !name.is_empty());
    for name in names.clone() {
        // Infallible: writing to a string. A `#[cold]` function has a section of another name.
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
