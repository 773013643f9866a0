//! Any bytes are objects or complaints.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::manifest::check(data) {
        panic!("{wrong}");
    }
});
