//! `portcullis`: try, check and watch policies.

use std::process::ExitCode;

fn main() -> ExitCode {
    policy_cli::cli::main()
}
