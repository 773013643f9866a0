//! The evaluator that runs and the one that reads like the specification decide alike.

#![no_main]

use libfuzzer_sys::fuzz_target;
use policy_core::testing::replay;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = replay::agreement(data) {
        panic!("{wrong}");
    }
});
