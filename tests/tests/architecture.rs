//! The rules of ARCHITECTURE.md, held by tests: who may import whom, and how files look.

use policy_tests::sources::{CRATES, SourceFile, root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// What each crate may import from the workspace.
fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let all = [
        "policy-core",
        "policy-proto",
        "policy-crds",
        "policy-controller",
        "policy-proxy",
        "policy-cli",
        "policy-testkit",
    ];
    BTreeMap::from([
        ("policy-core", BTreeSet::from([])),
        ("proto", BTreeSet::from(["policy-core"])),
        ("crds", BTreeSet::from(["policy-core"])),
        (
            "policy-controller",
            BTreeSet::from(["policy-core", "policy-proto", "policy-crds", "policy-proxy"]),
        ),
        ("policy-proxy", BTreeSet::from(["policy-core", "policy-proto"])),
        (
            "policy-cli",
            BTreeSet::from([
                "policy-core",
                "policy-proto",
                "policy-crds",
                "policy-controller",
                "policy-proxy",
            ]),
        ),
        ("tests", BTreeSet::from(all)),
        (
            "bench",
            BTreeSet::from([
                "policy-core",
                "policy-proto",
                "policy-crds",
                "policy-controller",
                "policy-proxy",
                "policy-floor",
            ]),
        ),
        ("xtask", BTreeSet::from(["policy-crds", "policy-proto"])),
    ])
}

/// The workspace crates among a manifest's ordinary dependencies.
fn edges(folder: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let mut ordinary = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            ordinary = line.trim() == "[dependencies]";
        } else if ordinary && line.starts_with("policy-") {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            found.insert(name.to_owned());
        }
    }
    found
}

fn files_below(prefix: &str) -> Vec<SourceFile> {
    let files: Vec<_> = rust_files().into_iter().filter(|f| f.path.starts_with(prefix)).collect();
    assert!(!files.is_empty(), "no source file below {prefix}: the rule would hold for nothing");
    files
}

fn names(file: &SourceFile, word: &str) -> bool {
    file.code().any(|line| line.contains(word))
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    let allowed = allowed();
    assert_eq!(allowed.keys().copied().collect::<BTreeSet<_>>(), CRATES.into_iter().collect());
    for (folder, may) in &allowed {
        let wrong: Vec<_> =
            edges(folder).into_iter().filter(|e| !may.contains(e.as_str())).collect();
        assert!(wrong.is_empty(), "{folder} may not import {wrong:?}");
    }
}

#[test]
fn the_proxy_links_no_kubernetes_and_the_core_no_runtime() {
    let rules = [
        (
            "policy-proxy",
            vec![
                "kube",
                "k8s-openapi",
                "gateway-api",
                "policy-crds",
                "policy-controller",
                "serde-saphyr",
            ],
        ),
        (
            "policy-core",
            vec!["tokio", "kube", "prost", "tonic", "hyper", "tower", "serde-saphyr", "tracing"],
        ),
        ("policy-proto", vec!["kube", "k8s-openapi", "policy-crds"]),
        ("policy-crds", vec!["tokio", "tonic", "prost", "hyper"]),
    ];
    for (package, banned) in rules {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none"])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let tree = String::from_utf8(tree.stdout).unwrap();
        let linked: BTreeSet<_> = tree.lines().filter_map(|l| l.split(' ').next()).collect();
        assert!(linked.contains(package));
        let wrong: Vec<_> = linked
            .iter()
            .filter(|c| banned.iter().any(|b| *c == b || c.starts_with(&format!("{b}-"))))
            .collect();
        assert!(wrong.is_empty(), "{package} must not link {wrong:?}");
    }
}

#[test]
fn kubernetes_types_stop_at_compile() {
    for file in files_below("policy-controller/src/serve") {
        assert!(!names(&file, "policy_crds"), "{}: serve sees core and proto only", file.path);
    }
}

#[test]
fn protobuf_stops_where_it_is_spoken() {
    let speaking = [
        "policy-proxy/src/discover/",
        "policy-proxy/src/identity/certify.rs",
        "policy-proxy/src/identity/workload_api.rs",
        "policy-proxy/src/sidecar/direct.rs",
    ];
    for file in files_below("policy-proxy/src") {
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
