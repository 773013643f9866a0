//! The example, installed as the guide says, and its expectations asked by real clients.

use super::away::controller_stays;
use super::expected::{as_expected, put};
use super::world::{node, wait_until_injected};
use policy_cli::expect::Expectations;
use policy_tests::sources::root;

#[tokio::test]
async fn the_examples_expectations_hold_from_real_clients() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let folder = root().join("examples/emojivoto");
    let file = |name: &str| folder.join(name).display().to_string();
    node.kubectl().run(&["apply", "-f", &file("namespace.yaml")]).await.unwrap();
    wait_until_injected(node, "emojivoto").await;
    let names = ["workloads.yaml", "emoji.yaml", "voting.yaml", "web.yaml", "metrics.yaml"];
    let files: Vec<String> = names.iter().map(|name| file(name)).collect();
    let mut arguments = vec!["apply"];
    arguments.extend(files.iter().flat_map(|file| ["-f", file.as_str()]));
    node.kubectl().run(&arguments).await.unwrap();
    for name in ["emoji", "voting", "web", "vote-bot"] {
        node.wait_rolled_out("emojivoto", &format!("deployment/{name}")).await.unwrap();
    }

    let expectations = Expectations::read(&folder.join("expectations.yaml")).unwrap();
    let mut wrong = Vec::new();
    for expectation in &expectations.requests {
        let seen = put(node, expectation).await;
        if let Err(instead) = as_expected(expectation, &seen) {
            wrong.push(format!("{}: {instead}", expectation.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node.remove_namespace("emojivoto").await.unwrap();
}
