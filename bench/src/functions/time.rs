//! The time of a call, by criterion.

use crate::programs::Function;
use anyhow::{Context, ensure};
use policy_bench::stats::Spread;
use serde_json::Value;
use std::process::{Command, Stdio};

/// The median in nanoseconds, with the confidence interval that criterion finds for it.
pub(crate) fn measure(function: &Function) -> anyhow::Result<Spread> {
    let home = std::env::temp_dir().join(format!("functions-{}", std::process::id()));
    let status = Command::new(&function.program)
        .args(["--time", &function.name, "--bench"])
        .env("CRITERION_HOME", &home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "{}: {status}", function.name);
    let path = home.join(&function.name).join("new/estimates.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    std::fs::remove_dir_all(&home)?;
    let estimates: Value = serde_json::from_str(&text)?;
    let number = |pointer: &str| {
        estimates.pointer(pointer).and_then(Value::as_f64).with_context(|| pointer.to_owned())
    };
    Ok(Spread {
        median: number("/median/point_estimate")?,
        low: number("/median/confidence_interval/lower_bound")?,
        high: number("/median/confidence_interval/upper_bound")?,
    })
}
