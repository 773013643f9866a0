//! The rules of ARCHITECTURE.md, held by tests: which crates and files import which, and how files look.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a test ends where it cannot go on"
)]

mod arrows;
mod decisions;
mod kinds;
mod loops;
mod properties;
mod server_path;
mod words;

use policy_tests::sources::{CRATES, SourceFile, root, rust_files};
use std::path::Path;

fn files_below(prefix: &str) -> Vec<SourceFile> {
    let files: Vec<_> = rust_files().into_iter().filter(|f| f.path.starts_with(prefix)).collect();
    assert!(!files.is_empty(), "no source file below {prefix}: the rule would hold for nothing");
    files
}

/// The production code of a product, in whichever of its crates it is.
fn sources_of(product: &str) -> Vec<SourceFile> {
    let files = files_below(product).into_iter().filter(|f| f.path.contains("/src/"));
    let files: Vec<_> = files.collect();
    assert!(!files.is_empty(), "no source file of {product}: the rule would hold for nothing");
    files
}

fn names(file: &SourceFile, word: &str) -> bool {
    file.code().any(|line| line.contains(word))
}

#[test]
fn kubernetes_types_stop_at_compile() {
    let served: Vec<_> = sources_of("policy-controller")
        .into_iter()
        .filter(|file| file.path.contains("/src/serve/") || file.path.contains("/src/serve.rs"))
        .collect();
    assert!(!served.is_empty(), "no source file of `serve`: the rule would hold for nothing");
    for file in served {
        assert!(!names(&file, "policy_crds"), "{}: serve sees core and proto only", file.path);
    }
}

/// One place decides if a reference is permitted. A finding lists authentications that are offered.
#[test]
fn grants_are_read_where_references_are_followed() {
    let reading = ["Kind::ReferenceGrant", "Resource::ReferenceGrant"];
    let files = files_below("policy-controller/engine/src").into_iter();
    let files: Vec<String> = files
        .filter(|file| !file.path.ends_with("tests.rs"))
        .filter(|file| reading.iter().any(|word| names(file, word)))
        .map(|file| file.path)
        .collect();
    // `policy_edit.rs` lists the kinds whose edits it compares, and reads no grant.
    let expected = ["findings/unused.rs", "policy_edit.rs", "resolve/reference.rs"];
    assert_eq!(files, expected.map(|file| format!("policy-controller/engine/src/{file}")));
}

#[test]
fn protobuf_stops_where_it_is_spoken() {
    let speaking = [
        "policy-proxy/src/discover/",
        "policy-proxy/src/outbound/connect.rs",
        "policy-proxy/src/sidecar/direct.rs",
        "policy-proxy/tls/src/identity/certify.rs",
        "policy-proxy/tls/src/identity/workload_api.rs",
    ];
    for file in sources_of("policy-proxy") {
        if speaking.iter().any(|place| file.path.starts_with(place)) {
            continue;
        }
        assert!(!names(&file, "policy_proto"), "{}: only the edges see the wire", file.path);
    }
}

#[test]
fn one_module_names_the_yaml_library() {
    for file in files_below("crds/src") {
        if !file.path.starts_with("crds/src/document") {
            assert!(
                !names(&file, "serde_saphyr"),
                "{}: only `document` knows the YAML library",
                file.path
            );
        }
    }
}

#[test]
fn the_files_of_every_crate_are_looked_at() {
    for member in xtask::structure::members(&root()).unwrap() {
        let known = CRATES.iter().any(|known| Path::new(&member.folder).starts_with(known));
        assert!(known, "{} is below no folder of `CRATES`", member.folder);
    }
}

#[test]
fn every_module_says_what_it_is() {
    for file in rust_files() {
        assert!(file.text.starts_with("//! "), "{}: start with a `//!` sentence", file.path);
    }
}

#[test]
fn files_stay_readable() {
    let long: Vec<_> = rust_files()
        .into_iter()
        .filter(|f| f.path.contains("/src/"))
        .map(|f| (f.lines_before_tests(), f.path))
        .filter(|(lines, _)| *lines > 450)
        .collect();
    assert!(long.is_empty(), "split by concept (about 400 lines before tests): {long:?}");
}

#[test]
fn every_file_is_declared_as_a_module() {
    let files = rust_files();
    let declared = |parents: &[String], name: &str| {
        files.iter().filter(|f| parents.contains(&f.path)).any(|f| {
            f.text
                .lines()
                .any(|line| line.trim().trim_end_matches(';').ends_with(&format!("mod {name}")))
        })
    };
    for file in files.iter().filter(|f| f.path.contains("/src/") && !f.path.contains("/src/bin/")) {
        let (folder, name) = file.path.rsplit_once('/').unwrap();
        let stem = name.trim_end_matches(".rs");
        // `main.rs` begins a program, in `src` or, where a crate has several, in a folder of its own.
        if stem == "main" || (folder.ends_with("/src") && stem == "lib") {
            continue;
        }
        let (folder, stem) =
            if stem == "mod" { folder.rsplit_once('/').unwrap() } else { (folder, stem) };
        let parents = [
            format!("{folder}/lib.rs"),
            format!("{folder}/main.rs"),
            format!("{folder}/mod.rs"),
            format!("{folder}.rs"),
        ];
        assert!(
            declared(&parents, stem),
            "{}: no `mod {stem};` declares it, so nobody compiles it",
            file.path
        );
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "unimplemented".to_owned() + "!"];
    for file in rust_files() {
        for word in &words {
            assert!(!file.text.contains(word.as_str()), "{}: contains {word}", file.path);
        }
    }
}
