//! Answers about destinations are taken whole or not at all.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::destination::check(data) {
        panic!("{wrong}");
    }
});
