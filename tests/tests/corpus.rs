//! The corpora of the fuzz targets (`tests/fuzz`), replayed, and changed at random within a bound.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a test stops at the first surprise"
)]

#[path = "../fuzz/checks/compat.rs"]
mod compat;
#[path = "../fuzz/checks/hello.rs"]
mod hello;
#[path = "../fuzz/checks/manifest.rs"]
mod manifest;
#[path = "../fuzz/checks/native.rs"]
mod native;

use policy_tests::sources::root;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

type Check = fn(&[u8]) -> Result<(), String>;

/// How many changed inputs each corpus is followed by.
const CHANGED: usize = 10_000;

/// How long that may take; a slow machine sees fewer.
const BOUND: Duration = Duration::from_secs(4);

/// A generator of numbers that is the same every time (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() % bound.max(1)
    }
}

/// One to four changes as fuzzers make them, `other` being another input.
fn change(numbers: &mut Numbers, data: &[u8], other: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len());
        match numbers.below(6) {
            0 if !data.is_empty() => data[at] ^= 1 << numbers.below(8),
            1 if !data.is_empty() => {
                data[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b':', b' '][numbers.below(8)]
            }
            2 => data.truncate(at),
            3 => {
                let end = (at + numbers.below(16)).min(data.len());
                data.drain(at..end);
            }
            4 => {
                let end = (at + numbers.below(16)).min(data.len());
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
            _ => {
                let from = numbers.below(other.len());
                let piece = other[from..(from + numbers.below(64)).min(other.len())].to_vec();
                data.splice(at..at, piece);
            }
        }
    }
    data
}

fn inputs(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

fn replay(target: &str, check: Check) {
    let inputs = inputs(&root().join("tests/fuzz/corpus").join(target));
    assert!(inputs.len() >= 8, "the corpus of {target} has {} inputs", inputs.len());
    replay_and_change(&inputs, check);
}

fn replay_and_change(inputs: &[(String, Vec<u8>)], check: Check) {
    for (name, data) in inputs {
        if let Err(wrong) = check(data) {
            panic!("{name}: {wrong}");
        }
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let begun = Instant::now();
    for _ in 0..CHANGED {
        if begun.elapsed() > BOUND {
            break;
        }
        let (name, data) = &inputs[numbers.below(inputs.len())];
        let (_, other) = &inputs[numbers.below(inputs.len())];
        let changed = change(&mut numbers, data, other);
        let result = std::panic::catch_unwind(|| check(&changed));
        let escaped = || changed.escape_ascii().to_string();
        match result {
            Ok(Ok(())) => {}
            Ok(Err(wrong)) => panic!("{name} changed to b\"{}\": {wrong}", escaped()),
            Err(_) => panic!("{name} changed to b\"{}\" panics", escaped()),
        }
    }
}

#[test]
fn a_client_hello_is_told_from_its_first_bytes() {
    replay("hello", hello::check);
}

#[test]
fn linkerds_messages_are_policies_or_are_refused() {
    replay("compat", compat::check);
}

#[test]
fn native_updates_are_applied_whole_or_not_at_all() {
    replay("native", native::check);
}

#[test]
fn any_bytes_are_objects_or_complaints() {
    replay("manifest", manifest::check);
}

/// The hard files that the parser's own tests keep.
#[test]
fn hard_manifests_are_objects_or_complaints() {
    replay_and_change(&inputs(&root().join("crds/tests/seeds")), manifest::check);
}
