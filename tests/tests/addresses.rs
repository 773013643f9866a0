//! One reading of addresses and blocks (bypass rule 33). `tests/addresses/corpus.json` has texts, read here by
//! the resources' parser, by the flags of the controller and the settings of the sidecar, and by Go,
//! Node.js and Python: what is accepted here means the same to everybody who accepts it, and what they
//! read differently is refused here.

use clap::Parser as _;
use ipnet::IpNet;
use policy_cli::expect::ClusterSettings;
use policy_controller::args;
use policy_core::NetworkTerm;
use policy_crds::{Body, Object, Resource, parse};
use policy_proxy::{args as sidecar_args, config};
use policy_tests::cluster::skip;
use policy_tests::sources::root;
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

#[derive(Deserialize)]
struct Corpus {
    /// Addresses by which the meaning of a block is compared: those that it contains.
    probes: Vec<IpAddr>,
    texts: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    text: String,
    /// Reason for which it is refused here; absent: it is read.
    refused: Option<String>,
    /// Readers that are known to read it differently from us.
    #[serde(default)]
    differs: BTreeSet<String>,
}

/// Reason of texts that are no address to anybody.
const NO_ADDRESS: &str = "no address";

/// Reasons of texts that some read in one way and others in another, or not at all.
const AMBIGUOUS: [&str; 6] =
    ["leading zeros", "host bits", "scope", "spaces", "mapped", "another notation"];

fn path() -> PathBuf {
    root().join("tests/addresses/corpus.json")
}

fn corpus() -> Corpus {
    let corpus: Corpus = serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
    let reasons: BTreeSet<&str> =
        corpus.texts.iter().filter_map(|row| row.refused.as_deref()).collect();
    assert_eq!(reasons, AMBIGUOUS.into_iter().chain([NO_ADDRESS]).collect());
    assert!(corpus.texts.iter().filter(|row| row.refused.is_none()).count() >= 25);
    corpus
}

/// A block as a NetworkAuthentication has it.
fn resource(text: &str) -> Option<IpNet> {
    let object = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthentication",
        "metadata": {"name": "a", "namespace": "b"}, "spec": {"networks": [{"cidr": text}]},
    });
    let Object { body: Body::Valid(Resource::NetworkAuthentication(read)), .. } =
        parse(&object).unwrap()
    else {
        return None;
    };
    match read.networks[0].term {
        NetworkTerm::Net(net) => Some(net),
        NetworkTerm::Symbol(symbol) => panic!("{text} is {symbol:?}"),
    }
}

/// An address as an ExternalWorkload has it.
fn workload(text: &str) -> Option<IpNet> {
    let object = json!({
        "apiVersion": "workload.linkerd.io/v1beta1", "kind": "ExternalWorkload",
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"meshTLS": {"identity": "a.b", "serverName": "a.b"}, "workloadIPs": [{"ip": text}]},
    });
    match parse(&object).unwrap().body {
        Body::Valid(Resource::ExternalWorkload(read)) => Some(read.addresses[0].into()),
        Body::Valid(other) => panic!("{other:?}"),
        Body::Invalid(_) => None,
    }
}

fn controller(flag: &str, text: &str) -> Option<args::RunArgs> {
    let line = ["policy-controller", "run", "--manifests=.", &format!("{flag}={text}")];
    match args::Cli::try_parse_from(line).ok()?.command {
        args::Command::Run(run) => Some(*run),
        other => panic!("{other:?}"),
    }
}

fn sidecar(name: &str, text: &str) -> Option<config::Config> {
    let set = [
        ("PORTCULLIS_POLICY_ADDR", "127.0.0.1:8090"),
        ("PORTCULLIS_WORKLOAD", "a:b"),
        ("PORTCULLIS_IDENTITY", "none"),
        (name, text),
    ];
    let environment = |asked: &str| {
        set.iter().find(|(name, _)| *name == asked).map(|(_, value)| OsString::from(value))
    };
    config::read(&sidecar_args::RunArgs::default(), &environment).ok()
}

/// The results of each of our own readers for a text: of one that is a list, an only item. Those of addresses
/// are not asked about blocks.
fn ours(text: &str) -> Vec<(&'static str, Option<IpNet>)> {
    let settings: Result<ClusterSettings, _> =
        serde_json::from_value(json!({"clusterNetworks": [text]}));
    let expected = settings.ok().map(|settings| settings.cluster_networks.unwrap()[0].0);
    let only = |mut read: Vec<IpNet>| {
        assert_eq!(read.len(), 1, "{text}");
        read.remove(0)
    };
    let networks = |name| sidecar(name, text).map(|read| only(read.store.facts.cluster.clone()));
    let addresses = |list: Vec<IpAddr>| only(list.into_iter().map(IpNet::from).collect());
    let mut read = vec![
        ("NetworkAuthentication", resource(text)),
        ("expectations", expected),
        (
            "--cluster-networks",
            controller("--cluster-networks", text).map(|read| only(read.cluster_networks)),
        ),
        ("PORTCULLIS_CLUSTER_NETWORKS", networks("PORTCULLIS_CLUSTER_NETWORKS")),
        (
            "LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS",
            networks("LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS"),
        ),
    ];
    if !text.contains('/') {
        // A block of the sidecar's settings has a length.
        read.retain(|(name, _)| !name.ends_with("_CLUSTER_NETWORKS"));
        read.extend([
            ("ExternalWorkload", workload(text)),
            (
                "--host-ips",
                controller("--host-ips", text).map(|read| addresses(read.guard.host_ips)),
            ),
            (
                "PORTCULLIS_INBOUND_IPS",
                sidecar("PORTCULLIS_INBOUND_IPS", text)
                    .map(|read| addresses(read.sidecar.pod_addresses)),
            ),
        ]);
    }
    read
}

#[test]
fn our_own_readers_read_alike_and_refuse_what_is_ambiguous() {
    for row in corpus().texts {
        // Blanks around the items of a flag's list are no part of them.
        let trimmed = row.text.trim() != row.text && resource(row.text.trim()).is_some();
        for (reader, read) in ours(&row.text) {
            let lists = reader.starts_with("--") || reader.contains('_');
            let expected = match (&row.refused, resource(row.text.trim())) {
                (None, Some(net)) => Some(net),
                (Some(_), Some(net)) if trimmed && lists => Some(net),
                (Some(_), _) => None,
                (None, None) => panic!("{:?} is refused by a NetworkAuthentication", row.text),
            };
            assert_eq!(read, expected, "{reader} reads {:?} ({:?})", row.text, row.refused);
        }
    }
}

/// Places of the probes that a text contains, by reader; none: the reader refuses the text.
type Readings = BTreeMap<String, Vec<Option<BTreeSet<usize>>>>;

/// The results of the readers of all three languages for the corpus; none: one of the languages is missing.
fn others() -> Option<Readings> {
    let mut all = Readings::new();
    for (program, arguments) in
        [("go", &["run", "read.go"][..]), ("node", &["read.mjs"]), ("python3", &["read.py"])]
    {
        let mut command = Command::new(program);
        command.args(arguments).arg(path()).current_dir(path().parent().unwrap());
        let Ok(output) = command.output() else {
            skip(program);
            return None;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}");
        let readings: Readings = serde_json::from_slice(&output.stdout).unwrap();
        all.extend(readings);
    }
    Some(all)
}

#[test]
fn what_is_accepted_means_the_same_to_go_node_and_python_and_what_they_read_differently_is_refused()
{
    let Some(others) = others() else { return };
    let readers: BTreeSet<&str> = others.keys().map(String::as_str).collect();
    let strict = ["go net/netip", "go net", "node BlockList", "python ipaddress"];
    assert!(readers.is_superset(&strict.into()), "{readers:?}");
    let Corpus { probes, texts } = corpus();
    for readings in others.values() {
        assert_eq!(readings.len(), texts.len());
    }
    let mut disputed: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, row) in texts.iter().enumerate() {
        let text = &row.text;
        let read = |name: &str| others[name][place].as_ref();
        let Some(refused) = &row.refused else {
            let net = resource(text).unwrap();
            let inside = |(place, probe): (usize, &IpAddr)| net.contains(probe).then_some(place);
            let meant: BTreeSet<usize> = probes.iter().enumerate().filter_map(inside).collect();
            for name in strict {
                assert!(read(name).is_some(), "{name} refuses {text:?}");
            }
            let differs: BTreeSet<String> = others
                .iter()
                .filter(|(_, readings)| readings[place].as_ref().is_some_and(|read| *read != meant))
                .map(|(name, _)| name.clone())
                .collect();
            // A later version of a program may read it right.
            let known = differs.is_subset(&row.differs);
            assert!(known, "{differs:?} read {text:?} differently from {net}");
            continue;
        };
        let outcomes: BTreeSet<_> = readers.iter().map(|name| read(name)).collect();
        if refused == NO_ADDRESS {
            assert_eq!(outcomes, BTreeSet::from([None]), "somebody reads {text:?}");
        } else if outcomes.len() > 1 {
            *disputed.entry(refused).or_default() += 1;
        }
    }
    for reason in AMBIGUOUS {
        let count = disputed.get(reason).copied().unwrap_or(0);
        assert!(count >= 3, "{reason}: only {count} texts are read differently: {disputed:?}");
    }
}
