//! Printing what an import makes: manifests, and on standard error the report.

use crate::output::{self, Paint};
use clap::ValueEnum;
use policy_import::{Exported, Fidelity, ImportFile, Imported, ReportRow, difference};
use std::io::Write;
use std::process::ExitCode;

/// The most errors that are printed.
const MAX_ERRORS: usize = 20;

/// Form in which manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::command) enum ManifestFormat {
    /// One YAML document for each manifest.
    #[default]
    Yaml,
    /// One JSON document: a List of the manifests.
    Json,
}

/// The error of an import of which nothing is written.
pub(super) fn failed(errors: &[String]) -> anyhow::Error {
    let shown = errors.iter().take(MAX_ERRORS).map(String::as_str).collect::<Vec<_>>().join("\n");
    let more = match errors.len().saturating_sub(MAX_ERRORS) {
        0 => String::new(),
        more => format!("\nand {more} more errors"),
    };
    anyhow::anyhow!("nothing was written:\n{shown}{more}")
}

/// Prints the report, the difference from a former import, and the manifests.
pub(super) fn print(
    imported: &Imported,
    former: Option<&ImportFile>,
    format: ManifestFormat,
) -> anyhow::Result<ExitCode> {
    let mut err = std::io::stderr();
    // Nothing more can be reported if standard error is closed.
    let _ = err.write_all(report(&imported.rows).as_bytes());
    if let Some(former) = former {
        let _ = err.write_all(changes(former, imported).as_bytes());
    }
    output::text(&match format {
        ManifestFormat::Yaml => imported.yaml(),
        ManifestFormat::Json => imported.json(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the report and the objects of an export.
pub(in crate::command) fn print_exported(
    exported: &Exported,
    format: ManifestFormat,
) -> anyhow::Result<ExitCode> {
    // Nothing more can be reported if standard error is closed.
    let _ = std::io::stderr().write_all(report(&exported.rows).as_bytes());
    output::text(&match format {
        ManifestFormat::Yaml => exported.yaml(),
        ManifestFormat::Json => exported.json(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The table of what became of each part, and the number of each kind.
fn report(rows: &[ReportRow]) -> String {
    let cells = rows.iter().map(|row| {
        let place = row.place.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        [place, row.subject.clone(), row.fidelity.as_str().to_owned(), row.note.clone()]
    });
    let table = output::table(["LINE", "SOURCE", "TRANSLATED", "NOTE"], cells);
    let all = [Fidelity::Exact, Fidelity::Narrower, Fidelity::Omitted];
    let count = |fidelity| rows.iter().filter(|row| row.fidelity == fidelity).count();
    let counts = all.map(|fidelity| format!("{} {}", count(fidelity), fidelity.as_str()));
    format!("{table}{}\n", counts.join(", "))
}

fn changes(former: &ImportFile, imported: &Imported) -> String {
    let paint = Paint::stderr();
    let lines = difference(std::slice::from_ref(former), imported);
    if lines.is_empty() {
        return "nothing is added or removed\n".to_owned();
    }
    let painted = lines.iter().map(|line| {
        let line = if line.starts_with('+') { paint.good(line) } else { paint.bad(line) };
        format!("{line}\n")
    });
    painted.collect()
}
