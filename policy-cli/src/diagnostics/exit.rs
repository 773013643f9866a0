//! Exit codes of commands that diagnose a cluster.

use super::report::DiagnosticsReport;
use crate::output::{self, Format, Paint};
use std::process::ExitCode;

/// Exit code for a cluster that cannot be reached.
const UNREACHABLE: u8 = 3;

/// Prints the report; returns 0 if all checks passed, else 1.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print_report(report: &DiagnosticsReport, format: Format) -> anyhow::Result<ExitCode> {
    output::print(format, report, |report| report.text(Paint::stdout()))?;
    Ok(if report.healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints why the cluster cannot be reached; exit code 3.
pub(crate) fn report_unreachable(error: &anyhow::Error) -> ExitCode {
    eprintln!("{} {error:#}", Paint::stderr().bad("error:"));
    ExitCode::from(UNREACHABLE)
}
