//! Native updates are applied whole or not at all.

#![no_main]

#[path = "../checks/native.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = check::check(data) {
        panic!("{wrong}");
    }
});
