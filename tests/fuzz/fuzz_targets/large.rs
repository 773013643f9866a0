//! Heads as large as the largest setting are forwarded whole or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::large::check(data) {
        panic!("{wrong}");
    }
});
