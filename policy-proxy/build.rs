//! How the sidecar is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Relative relocations in their packed form: 24 bytes each otherwise, all of them read at the start
    // and resident from then on, 0.6 MB. Needs glibc 2.36 or musl 1.2.4 where it runs.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
