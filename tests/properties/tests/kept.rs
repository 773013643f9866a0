//! The seed of a failing property is kept, and the next run begins with it.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use policy_properties::prelude::*;
use std::path::Path;
use std::process::Command;

/// Set for the process whose property is to fail.
const FAILS: &str = "PORTCULLIS_PROPERTY_FAILS";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn it_holds_where_it_is_not_asked_to_fail(number in any::<u64>()) {
        prop_assert!(std::env::var_os(FAILS).is_none() || !number.is_multiple_of(64));
    }
}

/// Runs the property so that it fails, in a folder that looks like this workspace; what it printed.
fn run(workspace: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "it_holds_where_it_is_not_asked_to_fail"]);
    command.current_dir(workspace.join("tests/properties")).env(FAILS, "1");
    command.env_remove("PROPTEST_DISABLE_FAILURE_PERSISTENCE");
    command.env("RUST_TEST_THREADS", "2");
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!output.status.success(), "{said}");
    said
}

#[test]
fn the_seed_of_a_failing_property_is_kept_and_the_next_run_begins_with_it() {
    let workspace = tempfile::tempdir().unwrap();
    let package = workspace.path().join("tests/properties");
    std::fs::create_dir_all(package.join("tests")).unwrap();
    std::fs::write(package.join("Cargo.toml"), "[package]\nname = \"example\"\n").unwrap();
    std::fs::write(workspace.path().join(file!()), "").unwrap();
    let said = run(workspace.path());
    let file = package.join("proptest-regressions/tests/kept.txt");
    let kept = std::fs::read_to_string(&file).unwrap();
    let seeds: Vec<&str> = kept.lines().filter(|line| line.starts_with("cc ")).collect();
    let [seed] = &seeds[..] else { panic!("{kept}") };
    assert!(seed.contains(" # shrinks to number = "), "{seed}");
    let (seed, _) = seed.split_once(" #").unwrap();
    let how = "cargo test -p example --test kept it_holds_where_it_is_not_asked_to_fail -- --exact";
    for part in [&*file.display().to_string(), seed, how] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // A seed that is read from the file is not written again.
    let again = run(workspace.path());
    assert!(again.contains("successes: 0"), "{again}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
}
