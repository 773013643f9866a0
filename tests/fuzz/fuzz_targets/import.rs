//! Any bytes are manifests that read back, or errors.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::import::check(data) {
        panic!("{wrong}");
    }
});
