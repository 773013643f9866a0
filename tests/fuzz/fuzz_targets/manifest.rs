//! Any bytes are objects or complaints.

#![no_main]

#[path = "../checks/manifest.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = check::check(data) {
        panic!("{wrong}");
    }
});
