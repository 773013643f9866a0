//! A response of HTTP/1 means to the sidecar what it means to hyper.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::reply::check(data) {
        panic!("{wrong}");
    }
});
