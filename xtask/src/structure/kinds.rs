//! Source files that name a kind: the files that a change of it, or another kind like it, has to touch.

use super::report::{CrateStructure, production};
use anyhow::{Context, Result};
use policy_crds::Kind;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Further names of kinds in the sources.
const OTHER_NAMES: [(Kind, &[&str]); 1] =
    [(Kind::HttpLocalRateLimitPolicy, &["RateLimit", "RateLimitPolicy"])];

/// The files that name a kind, from the workspace's root; tests and generated files are left out.
#[derive(Debug)]
pub struct KindFiles {
    /// The kind.
    pub kind: Kind,
    /// The files that hold the model and the wire: `policy-core` and `proto`.
    pub model: BTreeSet<String>,
    /// The files that hold the sidecar.
    pub sidecar: BTreeSet<String>,
    /// All others: how it is read, resolved, told and printed.
    pub elsewhere: BTreeSet<String>,
}

/// The files of the crates that are installed, for each kind that this project defines.
///
/// # Errors
/// A source file cannot be read.
pub fn kind_files(root: &Path, crates: &[CrateStructure]) -> Result<Vec<KindFiles>> {
    let defined = Kind::ALL.into_iter().filter(|kind| kind.spec().is_defined_here());
    let mut all: Vec<KindFiles> = defined.map(KindFiles::none).collect();
    let installed = crates.iter().filter(|of| of.is_installed());
    for file in installed.flat_map(|of| &of.files) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"))?;
        let words = words(&text);
        for of in all.iter_mut().filter(|of| of.names().iter().any(|name| words.contains(name))) {
            of.among(file).insert(file.clone());
        }
    }
    Ok(all)
}

/// The words of the code, without comments and tests.
pub(crate) fn words(text: &str) -> BTreeSet<&str> {
    let code = production(text).filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}

impl KindFiles {
    fn none(kind: Kind) -> Self {
        let none = BTreeSet::new;
        Self { kind, model: none(), sidecar: none(), elsewhere: none() }
    }

    /// Names of the kind in the sources. A name that two kinds share is neither's.
    fn names(&self) -> Vec<&'static str> {
        let kind = self.kind;
        let shared = Kind::ALL.iter().any(|k| *k != kind && k.as_str() == kind.as_str());
        let others = OTHER_NAMES.iter().filter(|(of, _)| *of == kind).flat_map(|(_, names)| *names);
        let spelt = [kind.as_str(), kind.plural()].into_iter().filter(|_| !shared);
        spelt.chain([kind.variant()]).chain(others.copied()).collect()
    }

    fn among(&mut self, file: &str) -> &mut BTreeSet<String> {
        if file.starts_with("policy-core/") || file.starts_with("proto/") {
            &mut self.model
        } else if file.starts_with("policy-proxy/") {
            &mut self.sidecar
        } else {
            &mut self.elsewhere
        }
    }
}

/// Table of how many files name each kind, with the goals.
pub fn kind_table(all: &[KindFiles]) -> String {
    let mut text = format!(
        "\n{:<26} {:>14} {:>8} {:>10}\n",
        "files that name a kind", "model and wire", "sidecar", "elsewhere"
    );
    for KindFiles { kind, model, sidecar, elsewhere } in all {
        let (model, sidecar, elsewhere) = (model.len(), sidecar.len(), elsewhere.len());
        let kind = format!("{kind:?}");
        let _ = writeln!(text, "{kind:<26} {model:>14} {sidecar:>8} {elsewhere:>10}");
    }
    text.push_str(GOAL);
    text
}

const GOAL: &str = "goal of a new kind: elsewhere 4, and one for each thing that only it does\n";
