//! The binary `policy-controller`.

use std::process::ExitCode;

fn main() -> ExitCode {
    policy_controller::run::main()
}
