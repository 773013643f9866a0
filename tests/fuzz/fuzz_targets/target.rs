//! A canonical target is canonical, and it is what is forwarded.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::replay::target(data) {
        panic!("{wrong}");
    }
});
