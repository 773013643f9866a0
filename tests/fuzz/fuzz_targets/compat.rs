//! Linkerd's messages are policies or are refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::compat::check(data) {
        panic!("{wrong}");
    }
});
