//! A request's first line is never called something else, in whatever pieces it comes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::detection::check(data) {
        panic!("{wrong}");
    }
});
