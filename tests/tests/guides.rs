//! The examples of docs/policies.md, docs/delegation.md and docs/requests.md are decided as the pages
//! say: by the evaluator alone, and through controller, gRPC, sidecar and a real client.

use policy_cli::expect::{run_evaluator, run_pipeline};
use policy_crds::spec::Watched;
use policy_tests::sources::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Documents by `kind namespace/name`, so that a section may replace one of the workload's.
type Documents = BTreeMap<String, String>;

/// A page with examples, the heading of its workloads, and how many sections it has at least.
type Page = (&'static str, &'static str, usize);

const POLICIES: Page = ("docs/policies.md", "The workload in these examples", 13);
const DELEGATION: Page = ("docs/delegation.md", "The workloads in these examples", 7);
const REQUESTS: Page = ("docs/requests.md", "The workloads in these examples", 10);

/// One section of a page: its heading, its manifests, and what is asked.
struct Section {
    heading: String,
    manifests: Documents,
    requests: Option<String>,
}

/// The sections that hold YAML, in their order.
fn sections(path: &str) -> Vec<Section> {
    let text = fs::read_to_string(root().join(path)).unwrap();
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
fn page((path, heading, least): Page) -> (Documents, Vec<Section>) {
    let mut sections = sections(path);
    assert_eq!(sections[0].heading, heading);
    let workload = sections.remove(0).manifests;
    assert!(sections.len() >= least, "sections are missing: {}", sections.len());
    for section in &sections {
        assert!(section.requests.is_some(), "`{}` asks nothing", section.heading);
    }
    (workload, sections)
}

fn decided_by_the_evaluator(of: Page) {
    let (workload, sections) = page(of);
    for section in sections {
        let (_folder, manifests, requests) = written(&workload, &section);
        let report = run_evaluator(&manifests, &requests)
            .unwrap_or_else(|error| panic!("{}: {error}", section.heading));
        assert!(report.is_as_expected(), "{}\n{report}", section.heading);
    }
}

fn decided_through_the_pipeline(of: Page) {
    let (workload, sections) = page(of);
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

#[test]
fn the_examples_on_policies_are_decided_as_they_say_by_the_evaluator() {
    decided_by_the_evaluator(POLICIES);
}

#[test]
fn the_examples_on_policies_are_decided_as_they_say_through_the_pipeline() {
    decided_through_the_pipeline(POLICIES);
}

#[test]
fn the_examples_on_delegation_are_decided_as_they_say_by_the_evaluator() {
    decided_by_the_evaluator(DELEGATION);
}

#[test]
fn the_examples_on_delegation_are_decided_as_they_say_through_the_pipeline() {
    decided_through_the_pipeline(DELEGATION);
}

#[test]
fn the_examples_on_requests_are_decided_as_they_say_by_the_evaluator() {
    decided_by_the_evaluator(REQUESTS);
}

#[test]
fn the_examples_on_requests_are_decided_as_they_say_through_the_pipeline() {
    decided_through_the_pipeline(REQUESTS);
}

/// Kinds that the pages have to explain.
#[test]
fn every_kind_that_people_write_has_an_example() {
    let mut every = Documents::new();
    for of in [POLICIES, DELEGATION, REQUESTS] {
        let (workload, sections) = page(of);
        every.extend(workload);
        every.extend(sections.into_iter().flat_map(|section| section.manifests));
    }
    for kind in policy_crds::Kind::ALL {
        let groups = ["policy.linkerd.io", "gateway.networking.k8s.io", "portcullis.dev"];
        let ours = groups.contains(&kind.group());
        let unused = kind.spec().watched == Watched::Never;
        let name = format!("{} ", kind.as_str());
        assert!(
            !ours || unused || every.keys().any(|key| key.starts_with(&name)),
            "no example of {kind:?}"
        );
    }
}

/// Gateway API served ReferenceGrants as `v1beta1` alone until its version 1.4, and serves it still.
#[test]
fn readers_can_apply_the_referencegrants_of_pages_and_examples() {
    let in_folder =
        |folder: PathBuf| fs::read_dir(folder).unwrap().map(|found| found.unwrap().path());
    let examples = in_folder(root().join("examples")).flat_map(in_folder);
    let too_new = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant";
    let mut grants = 0;
    for path in in_folder(root().join("docs")).filter(|path| path.is_file()).chain(examples) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(too_new), "{}", path.display());
        grants += text.matches("kind: ReferenceGrant").count();
    }
    assert!(grants > 5, "{grants}");
}
