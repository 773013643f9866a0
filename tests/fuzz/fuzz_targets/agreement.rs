//! The evaluator that runs and the one that reads like the specification decide alike.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(wrong) = policy_checks::replay::agreement(data) {
        panic!("{wrong}");
    }
});
