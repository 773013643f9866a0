//! Loops are found in small trees of source files, and nothing else is taken for one.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::fs;
use std::path::Path;
use xtask::structure::{CrateStructure, Member, Target, table};

/// A crate of these files, the first of which begins it.
fn read(files: &[(&str, &str)]) -> CrateStructure {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let first = folder.path().join(files.first().unwrap().0);
    let targets = vec![Target { name: "small".to_owned(), first }];
    let member =
        Member { name: "small".to_owned(), folder: String::new(), targets, dependencies: vec![] };
    CrateStructure::read(folder.path(), &member).unwrap()
}

fn loops(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    read(files).loops.into_iter().map(|it| it.files).collect()
}

#[test]
fn a_loop_of_three_files_is_one_component() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "pub struct B(super::c::C);"),
        ("src/c.rs", "fn f() { let _ = crate::a::A; let _ = crate::d::D; } pub struct C;"),
        ("src/d.rs", "pub struct D;"),
    ];
    assert_eq!(loops(&files), [["src/a.rs", "src/b.rs", "src/c.rs"]]);
    let found = read(&files);
    assert_eq!(found.top_loops, [["small: a", "small: b", "small: c"]]);
    assert_eq!(found.files.len(), 5);
    let edges = &found.loops.first().unwrap().edges;
    assert_eq!(edges.len(), 3);
    assert!(table(&[found]).contains("src/b.rs -> src/c.rs: super::c::C"));
}

#[test]
fn a_parent_that_imports_from_a_child_that_imports_from_it_is_a_loop() {
    for child in ["use super::Parent;", "fn f(_: super::Parent) {}", "use super::*;"] {
        let files = [
            ("src/lib.rs", "mod parent;"),
            ("src/parent/mod.rs", "mod child; pub use child::Child; pub struct Parent;"),
            ("src/parent/child.rs", child),
        ];
        assert_eq!(loops(&files), [["src/parent/child.rs", "src/parent/mod.rs"]], "{child}");
    }
    let declared = [
        ("src/lib.rs", "mod parent;"),
        ("src/parent.rs", "mod child; pub struct Parent;"),
        ("src/parent/child.rs", "pub(super) struct Child(super::Parent);"),
    ];
    assert!(loops(&declared).is_empty(), "a declaration alone imports nothing");
}

#[test]
fn edges_of_tests_are_none() {
    let files = [
        ("src/lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        (
            "src/b.rs",
            "pub struct B;\n#[cfg(test)] use crate::a::A;\n\
             #[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        ),
        ("src/tests.rs", "use crate::a::A;"),
    ];
    assert!(loops(&files).is_empty());
    let found = read(&files);
    assert!(!found.files.contains("src/tests.rs"));
    assert_eq!(found.lines, 4, "what comes before the tests");
}

#[test]
fn a_feature_beside_tests_is_production_code() {
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "pub struct B; #[cfg(any(test, feature = \"x\"))] use crate::a::A;"),
    ];
    assert_eq!(loops(&files), [["src/a.rs", "src/b.rs"]]);
}

#[test]
fn a_file_may_be_named_by_its_path_and_code_that_is_generated_is_no_file() {
    let files = [
        ("src/lib.rs", "#[path = \"elsewhere/far.rs\"] mod a; mod b; mod made;"),
        ("src/elsewhere/far.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "pub struct B(crate::a::A);"),
        ("src/made.rs", "#[path = \"gen/made.v1.rs\"] pub mod v1; use v1::M; pub struct Made;"),
        ("src/gen/made.v1.rs", "pub struct M(super::Made);"),
    ];
    assert_eq!(loops(&files), [["src/b.rs", "src/elsewhere/far.rs"]]);
}

#[test]
fn modules_are_followed_under_the_names_that_imports_give_them() {
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        // `b`, under another name, and something of a module below it.
        ("src/a.rs", "use crate::b as other; fn f() { other::deep::g() } pub fn h() {}"),
        ("src/b.rs", "pub mod deep;"),
        ("src/b/deep.rs", "pub fn g() { crate::a::h() }"),
    ];
    assert_eq!(loops(&files), [["src/a.rs", "src/b/deep.rs"]]);
    let passed_on = [
        ("src/lib.rs", "mod a; mod b; mod front;"),
        ("src/front.rs", "pub(crate) use crate::b::deep as shown;"),
        ("src/a.rs", "use crate::front::shown::g; pub fn h() {}"),
        ("src/b.rs", "pub mod deep;"),
        ("src/b/deep.rs", "pub fn g() { crate::a::h() }"),
    ];
    assert_eq!(loops(&passed_on), [["src/a.rs", "src/b/deep.rs", "src/front.rs"]]);
}

#[test]
fn modules_inside_a_file_are_that_file() {
    let root = "mod a { pub use self::inner::B; mod inner { pub use super::super::b::B; } } mod b;";
    let alone = [("src/lib.rs", root), ("src/b.rs", "pub struct B;")];
    assert!(loops(&alone).is_empty());
    let back = [("src/lib.rs", root), ("src/b.rs", "use crate::a::inner; pub struct B;")];
    assert_eq!(loops(&back), [["src/b.rs", "src/lib.rs"]]);
}

#[test]
fn a_missing_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("lib.rs");
    fs::write(&first, "mod lost;").unwrap();
    let member = Member {
        name: "small".to_owned(),
        folder: String::new(),
        targets: vec![Target { name: "small".to_owned(), first }],
        dependencies: vec![],
    };
    let error = CrateStructure::read(Path::new("/"), &member).unwrap_err().to_string();
    assert!(error.contains("lost.rs"), "{error}");
}
