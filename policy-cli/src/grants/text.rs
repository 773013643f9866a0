//! Tables of `portcullis grants`, and the manifests of the grants that are missing.

use super::report::{Followed, Usage};
use super::{GrantsReport, ReferenceGrantItem, ReferencePair, ReferenceUse, ReferenceWithout};
use crate::output::{self, Paint};
use std::fmt::Write;

impl GrantsReport {
    /// A table for each ReferenceGrant, one of the references without a grant, and the manifests
    /// that would permit these.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.dim(&self.source.to_string()));
        for grant in &self.grants {
            let heading = format!("ReferenceGrant {}/{}", grant.namespace, grant.name);
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}\n", paint.bold(&heading));
            text.push_str(&grant_text(grant, paint));
        }
        if self.grants.is_empty() {
            let _ = write!(text, "\n{}\n", paint.dim("no ReferenceGrant"));
        }
        if !self.without_grant.is_empty() {
            let _ = write!(text, "\n{}\n", paint.bold("References without a grant"));
            let rows = self.without_grant.iter().map(without_row);
            text.push_str(&indented(["OBJECT", "FIELD", "NAMES", "FOLLOWED"], rows));
            text.push_str(&self.manifests(paint));
        }
        text
    }

    /// The manifests, as documents to be applied.
    fn manifests(&self, paint: Paint) -> String {
        let mut text = String::new();
        let mut written = Vec::new();
        for reference in &self.without_grant {
            let Some(grant) = reference.grant.as_ref().filter(|grant| !written.contains(grant))
            else {
                continue;
            };
            if written.is_empty() {
                let words =
                    "These would permit them. Apply those that the other namespace agrees to.";
                let _ = write!(text, "\n{}\n", paint.bold(words));
            }
            written.push(grant);
            if let Ok(yaml) = output::yaml(grant) {
                let _ = write!(text, "---\n{yaml}");
            }
        }
        text
    }
}

fn grant_text(grant: &ReferenceGrantItem, paint: Paint) -> String {
    let mut text = String::new();
    for error in &grant.errors {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}", paint.bad(&format!("invalid, permits nothing: {error}")));
    }
    if !grant.entries.is_empty() {
        let rows = grant.entries.iter().map(pair_row);
        text.push_str(&indented(["FROM", "TO", "USED BY"], rows));
    }
    text
}

fn indented<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let width = output::width().map(|width| width.saturating_sub(2));
    let table = output::table_within(width, header, rows);
    table.lines().map(|line| format!("  {line}\n")).collect()
}

fn pair_row(pair: &ReferencePair) -> [String; 3] {
    let used_by = match pair.usage {
        Usage::Used => pair.references.iter().map(used_by).collect::<Vec<_>>().join("\n"),
        Usage::Unused => "unused".to_owned(),
        Usage::NotKnown => {
            format!("not known: {}", pair.reason.as_deref().unwrap_or_default())
        }
    };
    [pair.from.to_string(), pair.to.to_string(), used_by]
}

/// The object that refers, and its target where the entry does not name it.
fn used_by(reference: &ReferenceUse) -> String {
    let ReferenceUse { object, field, names, problem } = reference;
    let mut text = format!("{object} {field}: {names}");
    if let Some(problem) = problem {
        // Writing to a String cannot fail.
        let _ = write!(text, ", which {problem}");
    }
    text
}

fn without_row(reference: &ReferenceWithout) -> [String; 4] {
    let ReferenceWithout { object, field, names, followed, reason, grant: _ } = reference;
    let followed = match followed {
        Followed::Shared => "yes, the namespace is shared".to_owned(),
        Followed::Warned => "yes, with a warning".to_owned(),
        Followed::Refused => "no".to_owned(),
        Followed::NotKnown => format!("not known: {}", reason.as_deref().unwrap_or_default()),
    };
    [object.to_string(), (*field).to_owned(), names.to_string(), followed]
}
