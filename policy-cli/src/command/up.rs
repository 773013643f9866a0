//! `portcullis up`.

use super::block_on;
use crate::cluster::settings::{CONTROL_PLANE, of_chart};
use crate::inputs::{KubectlInputFlags, inputs};
use crate::local_mesh::addresses::SUBNET;
use crate::local_mesh::subnet;
use crate::output::{Format, Paint};
use crate::up::{self, UpOptions};
use anyhow::{Context, bail};
use clap::Args;
use ipnet::{IpNet, Ipv4Net};
use policy_core::DefaultPolicy;
use policy_core::address::parse_block;
use policy_engine::ControllerConfig;
use policy_engine::compatibility::with_preset;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run manifests on this machine, without a cluster
///
/// Starts the controller on the manifests, and for every pod a real sidecar in front of a small echo
/// application, each pod at its own loopback address. Prints the addresses, sample clients of the
/// manifests (outside, inside each network, the node, each ServiceAccount with its certificate) with a
/// command to paste for each, and then every decision. Editing, adding or deleting a manifest changes
/// the next decision.
///
/// Each client with an identity also has an address for each Service: what connects there in plaintext
/// arrives at the Service's pods in mutual TLS with that identity, because a sidecar of the client's is
/// in between, as in a pod.
///
/// Pods come from Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job and CronJob; a Deployment
/// `web` becomes the pods `web-0`, `web-1`, … . Loopback addresses stand for the real ones that policies
/// match; the tables show both. Certificates come from a CA that exists only in memory; clients' files
/// are in a private temporary directory, which is removed when `up` ends.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis up examples/emojivoto
  portcullis up --default-policy deny my-manifests/
  helm template shop charts/shop | portcullis up -
  portcullis up -o json examples/emojivoto | jq -c 'select(.decision == \"deny\")'
  portcullis up --subnet 127.99.0.0/16 examples/per-route     # addresses of your choice"
)]
pub(crate) struct UpArgs {
    /// Directories of manifests (YAML or JSON, any layout), files, or `-` for standard input
    #[arg(value_name = "PATH", required_unless_present_any = ["filename", "kustomize"])]
    paths: Vec<PathBuf>,

    /// The same, as kubectl takes it; may be repeated
    #[arg(short = 'f', long, value_name = "PATH")]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    kubectl: KubectlInputFlags,

    /// Default policy of the cluster
    #[arg(long, value_name = "POLICY", default_value = "all-unauthenticated", value_parser = policy)]
    default_policy: DefaultPolicy,

    /// Namespace of the control plane, which is part of every mesh identity
    #[arg(long, value_name = "NAMESPACE", default_value = CONTROL_PLANE)]
    control_plane_namespace: String,

    /// Trust domain that ends every mesh identity
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    identity_domain: String,

    /// Set every difference from Linkerd to Linkerd's behaviour, as the flag of the controller does
    #[arg(long)]
    linkerd_compatible: bool,

    /// The cluster's networks, separated by commas; by default all private ones
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = parse_block)]
    cluster_networks: Vec<IpNet>,

    /// Loopback addresses to use, a part of 127.0.0.0/8 with at least 65536 addresses; by default
    /// 127.10.0.0/16, or the next that no other `up` uses
    #[arg(long, value_name = "NETWORK")]
    subnet: Option<Ipv4Net>,

    /// Address at which the controller serves policies; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    grpc_addr: SocketAddr,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn policy(name: &str) -> Result<DefaultPolicy, String> {
    let names = DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    DefaultPolicy::parse(name).ok_or_else(|| format!("expected one of {names}"))
}

pub(crate) fn run(args: UpArgs) -> anyhow::Result<ExitCode> {
    let paths = [args.paths, args.filename].concat();
    args.kubectl.refuse_kustomization("up -")?;
    let inputs = inputs(&paths, "up -")?;
    let loopback = Ipv4Net::new(Ipv4Addr::new(127, 0, 0, 0), 8)?;
    if let Some(subnet) = args.subnet
        && (!loopback.contains(&subnet) || subnet.prefix_len() > 16)
    {
        bail!("--subnet: `{subnet}` is no part of 127.0.0.0/8 with 65536 addresses");
    }
    if !args.grpc_addr.ip().is_loopback() {
        bail!("--grpc-addr: `{}` is not on loopback", args.grpc_addr);
    }
    let mut config = match args.linkerd_compatible {
        true => with_preset(ControllerConfig::default()),
        false => ControllerConfig::default(),
    };
    config = of_chart(config);
    config.default_policy = args.default_policy;
    config.shared_namespaces.insert(args.control_plane_namespace.as_str().into());
    config.control_plane_namespace = args.control_plane_namespace.into();
    config.identity_domain = args.identity_domain.into();
    if !args.cluster_networks.is_empty() {
        config.cluster_networks = args.cluster_networks;
    }
    let lock = match args.subnet {
        Some(wanted) => subnet::lock(wanted.trunc()),
        None => subnet::lock_any(),
    };
    if args.subnet.is_none() && lock.subnet != SUBNET {
        let label = Paint::stderr().notice("note:");
        eprintln!("{label} another `up` uses {SUBNET}; this one uses {}", lock.subnet);
    }
    let options = UpOptions {
        inputs,
        config: config.validated().context("settings")?,
        listen: args.grpc_addr,
        subnet: lock.subnet,
        format: args.output,
    };
    block_on(up::run(options))
}
