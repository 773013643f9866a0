//! Nothing reaches the application that was not judged as it arrives.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::sidecar::check(data) {
        panic!("{wrong}");
    }
});
