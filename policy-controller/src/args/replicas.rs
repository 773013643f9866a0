//! Flags about the other replicas.

use super::text::items;
use super::value::List;
use clap::Args;
use policy_discovery::replicas::Replica;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Flags about the other replicas, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replicas")]
pub struct ReplicaArgs {
    /// Headless Service in the control plane's namespace whose endpoints are the replicas; empty:
    /// there are no others.
    #[arg(long, value_name = "NAME", default_value = "portcullis-policy")]
    pub replicas_service: String,

    /// Addresses of the other replicas' policy ports, separated by commas, instead of a Service.
    #[arg(long, value_name = "ADDRS", conflicts_with = "replicas_service", value_parser = peers)]
    pub replica_peers: Option<List<SocketAddr>>,

    /// Seconds that another replica may be silent before what is in force cannot be said.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub replica_timeout: u64,

    /// Name of this replica: of its pod [default: $HOSTNAME].
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub replica_name: Option<String>,

    /// Address of this replica's pod, so that it does not take itself for another.
    #[arg(long, value_name = "IP", env = "POD_IP")]
    pub replica_address: Option<String>,
}

/// What the flags mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// Name of this replica.
    pub name: Arc<str>,
    /// Address of its pod, if known.
    pub address: Option<std::net::IpAddr>,
    /// Whom to ask.
    pub whom: Whom,
    /// How long another replica may be silent.
    pub timeout: Duration,
}

/// Which replicas there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// None but this.
    Nobody,
    /// The endpoints of this Service in the control plane's namespace.
    Service(Arc<str>),
    /// These.
    Peers(BTreeSet<Replica>),
}

/// A flag whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaArgsError {
    /// Not an address.
    #[error("--replica-address: `{0}` is not an IP address")]
    Address(String),
    /// Not the name of a Service.
    #[error(
        "--replicas-service: `{0}` is not the name of a Service: up to 63 lower-case letters, digits and `-`"
    )]
    Service(String),
}

impl ReplicaArgs {
    /// What the flags mean.
    ///
    /// # Errors
    /// [`ReplicaArgsError`] names flag, value and what is allowed.
    pub fn settings(&self) -> Result<ReplicaSettings, ReplicaArgsError> {
        let named = self.replica_name.clone().filter(|name| !name.is_empty());
        let name = named.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
        let address = self.replica_address.as_deref().filter(|text| !text.is_empty());
        Ok(ReplicaSettings {
            name: if name.is_empty() { "policy-controller".into() } else { name.into() },
            address: address.map(ip).transpose()?,
            whom: self.whom()?,
            timeout: Duration::from_secs(self.replica_timeout),
        })
    }

    fn whom(&self) -> Result<Whom, ReplicaArgsError> {
        if let Some(list) = &self.replica_peers {
            let peer = |address: &SocketAddr| Replica { address: *address, name: None };
            return Ok(Whom::Peers(list.iter().map(peer).collect()));
        }
        let name = &self.replicas_service;
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        match name.as_str() {
            "" => Ok(Whom::Nobody),
            _ if name.len() <= 63 && name.bytes().all(allowed) => {
                Ok(Whom::Service(name.as_str().into()))
            }
            _ => Err(ReplicaArgsError::Service(name.clone())),
        }
    }
}

fn ip(value: &str) -> Result<std::net::IpAddr, ReplicaArgsError> {
    value.parse().map_err(|_| ReplicaArgsError::Address(value.to_owned()))
}

fn peers(list: &str) -> Result<List<SocketAddr>, String> {
    let peer = |item: &str| {
        let address = item.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        address.ok_or_else(|| {
            format!("`{item}` is not an address and port (for example `10.1.2.3:8090`)")
        })
    };
    items(list).map(peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        args: ReplicaArgs,
    }

    fn settings(flags: &[&str]) -> Result<ReplicaSettings, String> {
        let name = ["test", "--replica-name=me"];
        let flags = Flags::try_parse_from(name.iter().chain(flags));
        let args = flags.map_err(|error| error.to_string())?.args;
        args.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_become_settings() {
        let expected = ReplicaSettings {
            name: "me".into(),
            address: None,
            whom: Whom::Service("portcullis-policy".into()),
            timeout: Duration::from_secs(10),
        };
        assert_eq!(settings(&[]), Ok(expected.clone()));
        let peers = ["10.0.0.1:8090", "[fd00::1]:1"]
            .map(|address| Replica { address: address.parse().unwrap(), name: None });
        assert_eq!(
            settings(&["--replica-peers=10.0.0.1:8090, [fd00::1]:1", "--replica-timeout=5"]),
            Ok(ReplicaSettings {
                whom: Whom::Peers(peers.into()),
                timeout: Duration::from_secs(5),
                ..expected.clone()
            })
        );
        assert_eq!(
            settings(&["--replicas-service=", "--replica-address=10.0.0.9"]),
            Ok(ReplicaSettings {
                whom: Whom::Nobody,
                address: Some([10, 0, 0, 9].into()),
                ..expected
            })
        );
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refusal = |flag| settings(&[flag]).unwrap_err();
        let refused = refusal("--replica-peers=10.0.0.1");
        assert!(refused.contains("'--replica-peers <ADDRS>': `10.0.0.1` is not an"), "{refused}");
        assert!(refusal("--replica-peers=10.0.0.1:0").contains("is not an address and port"));
        assert_eq!(
            refusal("--replica-address=here"),
            "--replica-address: `here` is not an IP address"
        );
        assert!(refusal("--replica-timeout=4").contains("4 is not in 5..=600"));
        assert!(refusal("--replicas-service=Policy").contains("`Policy` is not the name"));
    }
}
