//! `portcullis check`.

use crate::check::{Findings, check};
use crate::output::{self, Format, Paint};
use anyhow::Context;
use clap::Args;
use policy_controller::ControllerConfig;
use policy_controller::source::directory::{Diagnostic, Severity};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what is wrong with manifests, and where
///
/// Errors are what makes an object invalid: it grants nothing until they are corrected, and keeps
/// what it claims. Warnings are what takes effect, perhaps not as meant: references that lead
/// nowhere, selectors that select nothing, matches that are never reached, and empty lists, whose
/// meaning is said in words.
///
/// Exit codes: 0 no errors, 1 errors (with --deny-warnings also warnings) or nothing to check, 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis check examples/emojivoto
  portcullis check --deny-warnings deploy/        # for CI
  portcullis check -o json deploy/ | jq -r '.findings[] | \"\\(.file):\\(.line) \\(.message)\"'"
)]
pub(crate) struct Arguments {
    /// Directory of manifests (YAML or JSON, any layout), or one file
    path: PathBuf,

    /// Count warnings as errors
    #[arg(long)]
    deny_warnings: bool,

    /// Form of the findings
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Report<'a> {
    objects: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    severity: &'static str,
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    object: Option<String>,
    field: Option<&'a str>,
    message: &'a str,
}

impl<'a> From<&'a Diagnostic> for Item<'a> {
    fn from(diagnostic: &'a Diagnostic) -> Self {
        Self {
            severity: diagnostic.severity.as_str(),
            file: &diagnostic.file,
            line: diagnostic.line,
            column: diagnostic.column,
            object: diagnostic.object.as_ref().map(ToString::to_string),
            field: diagnostic.field.as_deref(),
            message: &diagnostic.message,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let findings = check(&arguments.path, &ControllerConfig::default())
        .context("cannot read the manifests")?;
    let report = Report {
        objects: findings.objects,
        errors: findings.count(Severity::Error),
        warnings: findings.count(Severity::Warning),
        findings: findings.diagnostics.iter().map(Item::from).collect(),
    };
    output::print(arguments.output, &report, |report| text(report, &findings, Paint::stdout()))?;
    // Nothing that was checked is nothing that was found sound.
    let denied = report.objects == 0
        || report.errors > 0
        || (arguments.deny_warnings && report.warnings > 0);
    Ok(if denied { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(report: &Report<'_>, findings: &Findings, paint: Paint) -> String {
    let mut text = String::new();
    for diagnostic in &findings.diagnostics {
        text.push_str(&diagnostic.render(paint.is_on()));
        text.push_str("\n\n");
    }
    let count = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        number => format!("{number} {word}s"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} read: {}, {}",
        count(report.objects, "object"),
        count(report.errors, "error"),
        count(report.warnings, "warning")
    );
    text
}
