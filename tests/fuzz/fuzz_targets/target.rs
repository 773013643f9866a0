//! A canonical target is canonical, and it is what is forwarded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use policy_core::testing::replay;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = replay::target(data) {
        panic!("{wrong}");
    }
});
