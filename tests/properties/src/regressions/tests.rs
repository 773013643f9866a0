//! Where the seeds of a source go.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

/// A package in a temporary folder with an empty source at `path`.
fn package(path: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"example\"\n\n[lib]\nname = \"other\"\n";
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    let source = folder.path().join(path);
    std::fs::create_dir_all(source.parent().unwrap()).unwrap();
    std::fs::write(&source, "").unwrap();
    let named = source.display().to_string();
    (folder, named)
}

#[test]
fn every_source_of_a_package_has_a_file_and_a_command_of_its_own() {
    for (path, file, command) in [
        ("src/lib.rs", "src/lib.txt", "cargo test -p example"),
        ("src/a/tests.rs", "src/a/tests.txt", "cargo test -p example"),
        ("tests/a.rs", "tests/a.txt", "cargo test -p example --test a"),
        ("tests/a/b.rs", "tests/a/b.txt", "cargo test -p example --test a"),
    ] {
        let (folder, named) = package(path);
        let source = Source::find(&named).unwrap();
        let expected = folder.path().join("proptest-regressions").join(file);
        let expected = String::leak(expected.display().to_string());
        assert_eq!(source.file(), FileFailurePersistence::Direct(expected));
        assert_eq!(source.how_to_repeat(Some("main")), command);
        assert_eq!(source.how_to_repeat(None), command);
        assert_eq!(
            source.how_to_repeat(Some("b::it_holds")),
            format!("{command} b::it_holds -- --exact")
        );
    }
}

#[test]
fn a_source_that_is_not_here_has_no_file() {
    assert!(Source::find("no/such/source.rs").is_none());
    assert_eq!(Regressions.load_persisted_failures2(Some("no/such/source.rs")), Vec::new());
}

#[test]
fn a_configuration_that_keeps_nothing_keeps_seeds_all_the_same() {
    let nothing = Config { failure_persistence: None, ..Config::with_cases(7) };
    let config = kept(nothing);
    let keeper = config.failure_persistence.unwrap();
    assert_eq!((config.cases, keeper.as_any().is::<Regressions>()), (7, true));
}
