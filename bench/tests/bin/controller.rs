//! The binary `policy-controller`, built with the tests of this crate so that they never run an
//! older one.

use std::process::ExitCode;

fn main() -> ExitCode {
    policy_controller::run::main()
}
