//! A stream of updates says in pieces what it says as a whole.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::stream::check(data) {
        panic!("{wrong}");
    }
});
