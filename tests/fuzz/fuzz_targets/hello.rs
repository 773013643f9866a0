//! A ClientHello is told from its first bytes.

#![no_main]

#[path = "../checks/hello.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = check::check(data) {
        panic!("{wrong}");
    }
});
