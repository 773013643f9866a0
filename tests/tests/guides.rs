//! The examples of docs/policies.md are decided as the page says: by the evaluator alone, and through
//! controller, gRPC, sidecar and a real client.

use policy_cli::expect::{run_evaluator, run_pipeline};
use policy_crds::spec::Watched;
use policy_tests::sources::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Documents by `kind namespace/name`, so that a section may replace one of the workload's.
type Documents = BTreeMap<String, String>;

/// One section of the page: its heading, its manifests, and what is asked.
struct Section {
    heading: String,
    manifests: Documents,
    requests: Option<String>,
}

/// The sections that hold YAML, in their order.
fn sections() -> Vec<Section> {
    let text = fs::read_to_string(root().join("docs/policies.md")).unwrap();
    let parts = text.split("\n## ").skip(1);
    parts.map(section).filter(|section| !section.manifests.is_empty()).collect()
}

fn section(part: &str) -> Section {
    let heading = part.lines().next().unwrap().to_owned();
    let mut section = Section { heading, manifests: Documents::new(), requests: None };
    for block in part.split("```yaml\n").skip(1) {
        let (yaml, _) = block.split_once("\n```").expect("a block that ends");
        let asks = ["requests:", "cluster:"].iter().any(|word| yaml.starts_with(word));
        if asks {
            let before = section.requests.replace(yaml.to_owned());
            assert_eq!(before, None, "two blocks of requests in `{}`", section.heading);
        } else {
            section.manifests.extend(documents(yaml));
        }
    }
    section
}

fn documents(yaml: &str) -> Documents {
    let named = |document: &str| {
        let value: serde_json::Value = serde_saphyr::from_str(document).unwrap();
        let word = |pointer: &str| value.pointer(pointer).and_then(|v| v.as_str()).unwrap_or("");
        let (namespace, name) = (word("/metadata/namespace"), word("/metadata/name"));
        (format!("{} {namespace}/{name}", word("/kind")), document.to_owned())
    };
    yaml.split("\n---\n").map(named).collect()
}

/// A folder with the section's manifests beside the workload's, and the file of requests.
fn written(workload: &Documents, section: &Section) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = workload.clone();
    all.extend(section.manifests.clone());
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let text: Vec<_> = all.into_values().collect();
    fs::write(manifests.join("all.yaml"), text.join("\n---\n")).unwrap();
    let requests = folder.path().join("requests.yaml");
    fs::write(&requests, section.requests.as_deref().unwrap()).unwrap();
    (folder, manifests, requests)
}

/// The workload, and every section with requests.
fn page() -> (Documents, Vec<Section>) {
    let mut sections = sections();
    assert_eq!(sections[0].heading, "The workload in these examples");
    let workload = sections.remove(0).manifests;
    assert!(sections.len() >= 13, "sections are missing: {}", sections.len());
    for section in &sections {
        assert!(section.requests.is_some(), "`{}` asks nothing", section.heading);
    }
    (workload, sections)
}

#[test]
fn the_examples_on_policies_are_decided_as_they_say_by_the_evaluator() {
    let (workload, sections) = page();
    for section in sections {
        let (_folder, manifests, requests) = written(&workload, &section);
        let report = run_evaluator(&manifests, &requests)
            .unwrap_or_else(|error| panic!("{}: {error}", section.heading));
        assert!(report.is_as_expected(), "{}\n{report}", section.heading);
    }
}

#[test]
fn the_examples_on_policies_are_decided_as_they_say_through_the_pipeline() {
    let (workload, sections) = page();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for section in sections {
        let (_folder, manifests, requests) = written(&workload, &section);
        let report = runtime
            .block_on(run_pipeline(&manifests, &requests))
            .unwrap_or_else(|error| panic!("{}: {error}", section.heading));
        assert!(report.is_as_expected(), "{}\n{report}", section.heading);
    }
}

/// Kinds that the page has to explain.
#[test]
fn every_kind_that_people_write_has_an_example() {
    let (workload, sections) = page();
    let every: Documents =
        sections.into_iter().flat_map(|section| section.manifests).chain(workload).collect();
    for kind in policy_crds::Kind::ALL {
        let ours = ["policy.linkerd.io", "gateway.networking.k8s.io"].contains(&kind.group());
        let unused = kind.spec().watched == Watched::Never;
        let name = format!("{} ", kind.as_str());
        assert!(
            !ours || unused || every.keys().any(|key| key.starts_with(&name)),
            "no example of {kind:?}"
        );
    }
}
