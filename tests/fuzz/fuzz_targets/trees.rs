//! What a Server answers on the host of a tree was handed down to it, and less permits no more.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::trees::check(data) {
        panic!("{wrong}");
    }
});
