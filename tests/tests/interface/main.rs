//! Interface that people and programs rely on, which must not change by accident: the help of every
//! command, the words on the wire, in metrics, logs and objects, and the crate for services that embed
//! the check.
//!
//! All are compared with files. A change that is meant is written by
//! `PORTCULLIS_WRITE_INTERFACE=1 cargo test -p policy-tests --test interface`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod help;
mod public_api;
mod words;

use policy_tests::sources::root;
use std::fs;

/// Compares a text with the file of this name, or writes the file.
fn compare(name: &str, text: &str) {
    let path = root().join("tests/tests/interface").join(name);
    if std::env::var_os("PORTCULLIS_WRITE_INTERFACE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let gone = golden.lines().filter(|line| !text.lines().any(|now| now == *line));
    let new = text.lines().filter(|line| !golden.lines().any(|before| before == *line));
    let (gone, new): (Vec<_>, Vec<_>) = (gone.collect(), new.collect());
    assert!(
        golden == text,
        "{name} differs; gone: {gone:#?}, new: {new:#?}; if it is meant so, run the test with \
         PORTCULLIS_WRITE_INTERFACE=1"
    );
}
