//! What kube-proxy has made of Services: its rules, read as a connection from a pod meets them.

use policy_testkit::endpoints::Choice;
use policy_tests::cluster::node::{Node, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The rules of a table by their chains, in words.
type Chains = BTreeMap<String, Vec<Vec<String>>>;

/// The rules of a node.
pub(crate) struct Rules {
    v4: Family,
    v6: Family,
}

/// Those of a family. The chains of a Service have the same names in both.
#[derive(Default)]
struct Family {
    nat: Chains,
    filter: Chains,
}

impl Rules {
    /// The rules that there are now.
    pub(crate) async fn read(node: &Node) -> Self {
        let family = async |program| {
            let saved = node.run_at(Place::Node, &[program]).await.unwrap().output().unwrap();
            Family::of(&saved)
        };
        Self { v4: family("iptables-save").await, v6: family("ip6tables-save").await }
    }

    /// What becomes of a TCP connection to an address of a Service.
    pub(crate) fn choice(&self, address: IpAddr, port: u16) -> Choice {
        let (family, bits) = match address {
            IpAddr::V4(_) => (&self.v4, 32),
            IpAddr::V6(_) => (&self.v6, 128),
        };
        family.choice(&format!("{address}/{bits}"), &port.to_string())
    }
}

impl Family {
    fn of(saved: &str) -> Self {
        let mut family = Self::default();
        let mut table = None;
        for line in saved.lines() {
            match line {
                "*nat" => table = Some(&mut family.nat),
                "*filter" => table = Some(&mut family.filter),
                _ if line.starts_with('*') => table = None,
                _ => {}
            }
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            if let (Some(table), [first, chain, ..]) = (&mut table, words.as_slice())
                && first == "-A"
            {
                table.entry(chain.clone()).or_default().push(words);
            }
        }
        family
    }

    fn choice(&self, to: &str, port: &str) -> Choice {
        let target = |chains: &Chains, chain: &str| {
            let is_ours = |rule: &&Vec<String>| {
                let has = |name, value: &str| option(rule, name) == Some(value);
                has("-d", to) && has("-p", "tcp") && has("--dport", port)
            };
            let rule = chains.get(chain)?.iter().find(is_ours)?;
            option(rule, "-j").map(str::to_owned)
        };
        if let Some(chain) = target(&self.nat, "KUBE-SERVICES") {
            let endpoints = self.endpoints(&chain);
            assert!(!endpoints.is_empty(), "{chain} of {to} {port} leads nowhere");
            return Choice::Endpoints(endpoints);
        }
        let filters = ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"];
        let filtered = filters.into_iter().find_map(|chain| target(&self.filter, chain));
        match filtered.as_deref() {
            Some("REJECT") => Choice::Rejected,
            Some("DROP") => Choice::Dropped,
            None => Choice::Undeclared,
            Some(other) => panic!("{other} for {to} {port}"),
        }
    }

    /// The endpoints that a chain forwards to.
    fn endpoints(&self, chain: &str) -> BTreeSet<SocketAddr> {
        let rules = self.nat.get(chain).unwrap_or_else(|| panic!("no chain {chain}"));
        let targets = |prefixes: &[&str]| -> Vec<&str> {
            let targets = rules.iter().filter_map(|rule| option(rule, "-j"));
            targets.filter(|to| prefixes.iter().any(|prefix| to.starts_with(prefix))).collect()
        };
        let translated = rules.iter().filter_map(|rule| option(rule, "--to-destination"));
        let mut endpoints: BTreeSet<SocketAddr> =
            translated.map(|address| address.parse().unwrap()).collect();
        for endpoint in targets(&["KUBE-SEP-"]) {
            endpoints.extend(self.endpoints(endpoint));
        }
        // The chain of an external address: the first of these rules is the one for pods.
        if let Some(policy) = targets(&["KUBE-SVC-", "KUBE-SVL-"]).first() {
            endpoints.extend(self.endpoints(policy));
        }
        endpoints
    }
}

/// The value of an option of a rule. Comments have no word that is one.
fn option<'r>(rule: &'r [String], name: &str) -> Option<&'r str> {
    let found = rule.windows(2).find(|pair| pair[0] == name);
    found.map(|pair| pair[1].as_str())
}
