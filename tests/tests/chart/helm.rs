//! Helm itself, on the chart of this repository.

use policy_tests::sources::root;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The version that charts are rendered for where no cluster says its own.
pub(crate) const KUBE_VERSION: &str = "1.34.3";

/// The namespace of the release that is rendered.
pub(crate) const NAMESPACE: &str = "portcullis";

/// The chart's folder.
pub(crate) fn chart() -> PathBuf {
    root().join("charts/portcullis")
}

/// A call of Helm; absent: the test is to return, it has been counted as skipped.
pub(crate) fn helm() -> Option<Command> {
    let mut command = Command::new(policy_tests::cluster::helm_or_skip()?);
    // Neither the user's repositories nor its cluster.
    for variable in ["HELM_NAMESPACE", "KUBECONFIG", "HELM_KUBECONTEXT"] {
        command.env_remove(variable);
    }
    Some(command)
}

/// What Helm makes of the chart with the arguments given besides.
pub(crate) fn template(arguments: &[&str]) -> Option<Output> {
    let mut command = helm()?;
    command.args(["template", "portcullis"]).arg(chart());
    command.args(["--namespace", NAMESPACE, "--kube-version", KUBE_VERSION]).args(arguments);
    Some(command.output().expect("helm runs"))
}

/// The chart's example values, by name, sorted.
pub(crate) fn examples() -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(chart().join("ci")).unwrap();
    let mut examples: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.strip_suffix("-values.yaml").expect("*-values.yaml").to_owned(), path)
        })
        .collect();
    examples.sort();
    examples
}

/// Standard output of a call that has to succeed.
pub(crate) fn succeeded(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}
