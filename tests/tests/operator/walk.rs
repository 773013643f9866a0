//! The walk, page by page.

use super::page::{Step, before_sections, sections, steps};
use super::shell::Shell;
use policy_tests::cluster::gateway_api_crds;
use policy_tests::cluster::node::{Node, SharedNode};

static NODE: SharedNode = SharedNode::new();

/// Commands and files that the test replaces, because it cannot reach what the pages name.
fn instead() -> Vec<(&'static str, String)> {
    let definitions = gateway_api_crds().unwrap();
    let folder = definitions.first().and_then(|file| file.parent()).unwrap();
    let release = "https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.4.0/standard-install.yaml";
    vec![(release, folder.display().to_string())]
}

/// Every text that something else stands in for is on the pages still.
#[test]
fn what_cannot_be_reached_is_named_by_a_page() {
    let pages = [steps("docs/install.md"), steps("docs/default-deny.md")].concat();
    for (named, _) in instead() {
        assert!(pages.iter().any(|step| step.commands.contains(named)), "{named}");
    }
}

/// The node with the images of this repository, and nothing installed; absent: the test is to return, it
/// has been counted as skipped.
async fn node() -> Option<&'static Node> {
    NODE.prepared_or_skip(async |node| node.load_our_images().await).await
}

#[tokio::test]
async fn the_documents_lead_from_an_empty_cluster_to_default_deny_and_back() {
    let Some(node) = node().await else { return };
    let Some(shell) = Shell::on(node, instead()) else { return };
    let install = "docs/install.md";
    shell.walk(&sections(install, &["1.", "2.", "3.", "4.", "5.", "6."])).await;
    shell.walk(&steps("docs/default-deny.md")).await;
    shell.walk(&sections(install, &["7.", "8."])).await;
    // On the same node, which is empty again but for definitions and what was in the namespaces.
    let both = "docs/both-meshes.md";
    shell.walk(&before_sections(both)).await;
    shell.walk(&sections(both, &["1.", "2.", "3."])).await;
    shell.walk(&[a_release_in_linkerds_namespace()]).await;
    shell.walk(&sections(both, &["4."])).await;
}

/// The release that the page's last section removes. Its pods do not get ready, because Linkerd's identity
/// service is not there; what is removed is the same. The definitions of the former release are left.
fn a_release_in_linkerds_namespace() -> Step {
    let commands = "helm install portcullis charts/portcullis --namespace linkerd --create-namespace \\\n  \
                    --values charts/portcullis/ci/beside-linkerd-values.yaml --set crds.portcullis=false";
    Step {
        place: "docs/beside-linkerd.md, without --wait".to_owned(),
        section: String::new(),
        commands: commands.to_owned(),
        exit: 0,
        prints: None,
    }
}
