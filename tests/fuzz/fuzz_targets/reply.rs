//! A response of HTTP/1 means to the sidecar what it means to hyper.

#![no_main]

#[path = "../checks/reply.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = check::check(data) {
        panic!("{wrong}");
    }
});
