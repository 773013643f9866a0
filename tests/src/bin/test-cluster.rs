//! The cluster for tests, by hand: `test-cluster build` builds its programs, so that the tests need
//! not; `test-cluster run` starts a control plane with our definitions installed, `test-cluster node`
//! a whole node with our images loaded, and ends it when its standard input does; `test-cluster images`
//! builds our images.

use anyhow::Result;
use policy_tests::cluster::node::{self, Node, build_images};
use policy_tests::cluster::{Cluster, Missing, in_ci, prepare};
use std::io::Read as _;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("build") => build().await,
        Some("run") => run().await,
        Some("node") => run_node().await,
        Some("images") => images().await,
        _ => Err(anyhow::anyhow!("usage: test-cluster build | run | node | images")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn build() -> Result<()> {
    if std::env::var_os("KUBECONFIG_UNDER_TEST").is_some() {
        println!("the cluster for tests is the one that KUBECONFIG_UNDER_TEST names");
        return Ok(());
    }
    match tokio::task::spawn_blocking(prepare).await? {
        Ok(folder) => println!("the control plane for tests is in {}", folder.display()),
        Err(error) if error.is::<Missing>() && !in_ci() => {
            println!("tests that need a control plane will be SKIPPED: {error}");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn run() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.install_crds().await?;
    println!("export KUBECONFIG={}", cluster.kubeconfig().display());
    until_input_ends().await
}

async fn run_node() -> Result<()> {
    let node = Node::start().await?;
    if std::env::args().all(|argument| argument != "--bare") {
        node.load_our_images().await?;
    }
    println!("export KUBECONFIG={}", node.kubeconfig().display());
    until_input_ends().await
}

async fn images() -> Result<()> {
    match node::check() {
        Err(error) if error.is::<Missing>() && !in_ci() => {
            println!("tests that need a node will be SKIPPED: {error}");
            return Ok(());
        }
        checked => checked?,
    }
    for archive in tokio::task::spawn_blocking(build_images).await?? {
        println!("{}", archive.display());
    }
    Ok(())
}

async fn until_input_ends() -> Result<()> {
    let until_end = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(until_end).await??;
    Ok(())
}
