//! A ClientHello is told from its first bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::hello::check(data) {
        panic!("{wrong}");
    }
});
