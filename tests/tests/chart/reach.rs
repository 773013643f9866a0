//! Rights that each service account of the chart has: its own, and those of the accounts whose tokens
//! it can get. The whole table is compared with `golden-reach.txt`, which `PORTCULLIS_WRITE_CHART=1`
//! writes anew.

use crate::helm;
use policy_tests::chart::examples;
use policy_tests::sources::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The Secret whose key vouches for every identity of the mesh.
const AUTHORITY: &str = "portcullis-identity-issuer";

/// The namespace of the release.
const NAMESPACE: &str = "portcullis";

/// Stands for every name.
const ANY: &str = "*";

/// Resources whose objects become containers, and subresources that get into one.
const CONTAINERS: [&str; 15] = [
    "pods",
    "podtemplates",
    "deployments",
    "daemonsets",
    "statefulsets",
    "replicasets",
    "replicationcontrollers",
    "jobs",
    "cronjobs",
    "pods/exec",
    "pods/attach",
    "pods/ephemeralcontainers",
    "pods/portforward",
    "pods/proxy",
    "nodes/proxy",
];

/// One verb on objects of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    /// Group and resource, or the resource alone in the core group.
    resource: String,
    verb: String,
    name: String,
    /// The namespace; [`ANY`]: the whole cluster.
    namespace: String,
}

/// Value of a right to an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// Objects that a controller of policies has to see, and no secrets.
    Reading,
    /// To ask, or to tell what nobody acts on.
    Harmless,
    /// Bounded; the words say to what.
    Bounded(&'static str),
    ReadSecret,
    CreateSecret,
    /// Or delete it, which an ownerReference to nothing does.
    ChangeSecret,
    /// Containers with any service account and any Secret of the namespace.
    Containers,
    Tokens,
    /// To be anybody, or to give oneself rights.
    Everything,
    /// To change every object as it is written, pods among them.
    Mutating,
    /// To see every object as it is written.
    Validating,
}

fn worth(right: &Right) -> Worth {
    let Right { resource, verb, .. } = right;
    let (resource, verb) = (resource.as_str(), verb.as_str());
    let reads = ["get", "list", "watch"].contains(&verb);
    let bare = resource.rsplit_once("k8s.io/").or(resource.rsplit_once("apps/"));
    let bare = bare.or(resource.rsplit_once("batch/")).map_or(resource, |(_, bare)| bare);
    let rights = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    match (bare, verb) {
        (ANY, _) | (_, ANY | "impersonate" | "bind" | "escalate") => Worth::Everything,
        ("secrets", "create") => Worth::CreateSecret,
        ("secrets", _) if reads => Worth::ReadSecret,
        ("secrets", _) => Worth::ChangeSecret,
        ("serviceaccounts/token", _) => Worth::Tokens,
        (bare, _) if CONTAINERS.contains(&bare) && (!reads || bare.contains('/')) => {
            Worth::Containers
        }
        (_, _) if reads => Worth::Reading,
        (bare, _) if rights.contains(&bare) => Worth::Everything,
        ("mutatingwebhookconfigurations", _) => Worth::Mutating,
        ("validatingwebhookconfigurations", _) => Worth::Validating,
        ("events" | "tokenreviews" | "subjectaccessreviews", "create") => Worth::Harmless,
        ("leases", _) => Worth::Bounded("leads, or keeps others from it"),
        ("namespaces", "patch") => Worth::Bounded(
            "labels (Pod Security, who asks for a sidecar), and deletion by ownerReferences",
        ),
        ("configmaps", _) => {
            Worth::Bounded("roots that proxies trust; other ConfigMaps are only added")
        }
        (bare, "patch") if bare.ends_with("/status") => Worth::Bounded("tells what is not so"),
        _ => panic!("{right:?}: say here what it is worth"),
    }
}

/// The rights of every service account of a chart, by its name.
fn rights(rendered: &[Value]) -> BTreeMap<String, BTreeSet<Right>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: BTreeMap<String, BTreeSet<Right>> = rendered
        .iter()
        .filter(|object| object["kind"] == "ServiceAccount")
        .map(|account| (text(&account["metadata"]["name"]), BTreeSet::new()))
        .collect();
    for binding in rendered.iter().filter(|object| {
        ["RoleBinding", "ClusterRoleBinding"].iter().any(|kind| object["kind"] == *kind)
    }) {
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or(ANY);
        let role = rendered.iter().find(|object| {
            object["kind"] == binding["roleRef"]["kind"]
                && object["metadata"]["name"] == binding["roleRef"]["name"]
                && (object["kind"] == "ClusterRole" || object["metadata"]["namespace"] == namespace)
        });
        let rules = role.unwrap_or_else(|| panic!("the role of {binding}"))["rules"].as_array();
        for subject in binding["subjects"].as_array().unwrap() {
            let account = all.get_mut(subject["name"].as_str().unwrap());
            let account = account.unwrap_or_else(|| panic!("the account of {binding}"));
            account.extend(rules.unwrap().iter().flat_map(|rule| each(rule, namespace)));
        }
    }
    all
}

/// Every right of a rule.
fn each(rule: &Value, namespace: &str) -> Vec<Right> {
    let list = |key: &str| -> Vec<String> {
        let values = rule[key].as_array().into_iter().flatten();
        values.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let mut names = list("resourceNames");
    if names.is_empty() {
        names.push(ANY.to_owned());
    }
    let mut rights = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            let dot = if group.is_empty() { "" } else { "/" };
            for verb in list("verbs") {
                rights.extend(names.iter().map(|name| Right {
                    resource: format!("{group}{dot}{resource}"),
                    verb: verb.clone(),
                    name: name.clone(),
                    namespace: namespace.to_owned(),
                }));
            }
        }
    }
    rights
}

/// Ways to the tokens of other accounts of the control plane's namespace; empty if there is none.
fn ways_to_tokens(rights: &BTreeSet<Right>) -> BTreeSet<&'static str> {
    let home = |right: &&Right| [ANY, NAMESPACE].contains(&&*right.namespace);
    let of = |wanted: Worth| rights.iter().filter(home).filter(move |right| worth(right) == wanted);
    let mut ways = BTreeSet::new();
    // A Secret of type service-account-token, under the name of one that may be read.
    let readable = of(Worth::ReadSecret).any(|read| {
        let free = |right: &Right| right.name == read.name || right.name == ANY;
        read.name == ANY || of(Worth::ChangeSecret).any(free)
    });
    if readable && of(Worth::CreateSecret).next().is_some() {
        ways.insert("a Secret made as a token");
    }
    for (wanted, way) in [
        (Worth::Containers, "containers"),
        (Worth::Tokens, "tokens"),
        (Worth::Everything, "rights"),
        (Worth::Mutating, "pods changed by a webhook as they are written"),
    ] {
        ways.extend(of(wanted).next().map(|_| way));
    }
    ways
}

/// The Secrets that are read by these rights.
fn secrets(rights: &BTreeSet<Right>) -> BTreeSet<&str> {
    let read = rights.iter().filter(|right| worth(right) == Worth::ReadSecret);
    read.map(|right| right.name.as_str()).collect()
}

/// The Secrets that an account reads with the rights of others, and how.
fn second_hop<'a>(
    all: &'a BTreeMap<String, BTreeSet<Right>>,
    account: &str,
) -> BTreeSet<(&'static str, &'a str, &'a str)> {
    let ways = ways_to_tokens(&all[account]);
    let others = all.iter().filter(|(other, _)| *other != account);
    let gains = others.flat_map(|(other, rights)| {
        let ways = ways.clone();
        let read = secrets(rights).into_iter();
        read.flat_map(move |secret| {
            ways.clone().into_iter().map(move |way| (way, other.as_str(), secret))
        })
    });
    gains.collect()
}

fn table(example: &str, all: &BTreeMap<String, BTreeSet<Right>>) -> String {
    let mut text = String::new();
    for (account, rights) in all {
        writeln!(text, "{example}: {account}").unwrap();
        for right in rights {
            let Right { resource, verb, name, namespace } = right;
            let what = match worth(right) {
                Worth::Reading => continue,
                Worth::Bounded(words) => words.to_owned(),
                worth => format!("{worth:?}"),
            };
            writeln!(text, "  {verb} {resource} {name} in {namespace}: {what}").unwrap();
        }
        for (way, other, secret) in second_hop(all, account) {
            writeln!(text, "  then, by {way}: {other}, which reads Secret {secret}").unwrap();
        }
    }
    text
}

#[test]
fn what_each_service_account_reaches_in_two_hops_is_what_is_expected() {
    let Some(helm) = helm() else { return };
    let mut found = String::new();
    for (example, values) in examples().unwrap() {
        let all = rights(&helm.objects(&values).unwrap());
        found.push_str(&table(&example, &all));
        let controller = &all["policy-controller"];
        let ways = ways_to_tokens(controller);
        assert!(!ways.contains("a Secret made as a token"), "{example}");
        assert!(!secrets(controller).contains(AUTHORITY), "{example}");
    }
    let path = root().join("tests/tests/chart/golden-reach.txt");
    if std::env::var_os("PORTCULLIS_WRITE_CHART").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, golden, "if it is meant so, run the test with PORTCULLIS_WRITE_CHART=1");
}

#[test]
fn with_a_certificate_of_yours_the_controllers_rights_lead_to_no_secret() {
    let Some(helm) = helm() else { return };
    let (_, values) = examples().unwrap().into_iter().find(|(name, _)| name == "supplied").unwrap();
    let all = rights(&helm.objects(&values).unwrap());
    assert_eq!(secrets(&all["policy-controller"]), BTreeSet::new());
    assert_eq!(ways_to_tokens(&all["policy-controller"]), BTreeSet::new());
}

#[test]
fn the_former_rights_of_the_controller_are_known_to_lead_to_the_issuers_key() {
    let right = |verb: &str, name: &str| Right {
        resource: "secrets".to_owned(),
        verb: verb.to_owned(),
        name: name.to_owned(),
        namespace: NAMESPACE.to_owned(),
    };
    let webhooks = "policy-admission-tls";
    let former =
        BTreeSet::from([right("create", ANY), right("get", webhooks), right("update", webhooks)]);
    let issuer = BTreeSet::from([right("get", AUTHORITY)]);
    let all = BTreeMap::from([("c".to_owned(), former), ("i".to_owned(), issuer)]);
    let expected = BTreeSet::from([("a Secret made as a token", "i", AUTHORITY)]);
    assert_eq!(second_hop(&all, "c"), expected);
}
