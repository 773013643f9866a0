//! Linkerd's messages are policies or are refused.

#![no_main]

#[path = "../checks/compat.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = check::check(data) {
        panic!("{wrong}");
    }
});
