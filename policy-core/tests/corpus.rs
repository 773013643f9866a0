//! The corpora of the fuzz targets, replayed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test stops at the first surprise"
)]

use policy_core::testing::replay;
use std::path::Path;

fn replay_all(target: &str, check: fn(&[u8]) -> Result<(), String>) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus").join(target);
    let mut files = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        if let Err(wrong) = check(&data) {
            panic!("{}: {wrong}", path.display());
        }
        files += 1;
    }
    assert!(files >= 20, "{} has {files} files", corpus.display());
}

#[test]
fn every_target_of_the_corpus_is_canonical_or_refused() {
    replay_all("target", replay::target);
}

#[test]
fn both_evaluators_agree_on_the_corpus() {
    replay_all("agreement", replay::agreement);
}
