//! Runs the tests of the workspace, as `make test` and its brothers do: see `policy_tests::lanes`.

use anyhow::Result;
use policy_tests::lanes::{self, Order};
use policy_tests::sources::root;
use std::process::ExitCode;

fn main() -> ExitCode {
    let passed = match std::env::args().nth(1).as_deref() {
        None => run(Order::AtOnce),
        Some("--one-after-the-other") => run(Order::OneAfterTheOther),
        Some("--cluster-only") => run(Order::ClusterOnly),
        Some("--rest-only") => run(Order::RestOnly),
        Some(_) => {
            let flags = "--one-after-the-other | --cluster-only | --rest-only";
            Err(anyhow::anyhow!("usage: test-lanes [{flags}]"))
        }
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(order: Order) -> Result<bool> {
    lanes::run(&root(), order)
}
