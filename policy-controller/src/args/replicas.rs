//! Flags about the other replicas.

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
    #[arg(long, value_name = "ADDRS", conflicts_with = "replicas_service")]
    pub replica_peers: Option<String>,

    /// Seconds that another replica may be silent before what is in force cannot be said.
    #[arg(long, value_name = "S", default_value_t = 10)]
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
    #[error("--{flag}: `{value}` is not {allowed}")]
    Address {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Not the name of a Service.
    #[error(
        "--replicas-service: `{0}` is not the name of a Service: up to 63 lower-case letters, digits and `-`"
    )]
    Service(String),
    /// Too short for the heartbeats of a replica.
    #[error("--replica-timeout: `{0}` is out of range; 5 to 600")]
    Timeout(u64),
}

impl ReplicaArgs {
    /// What the flags mean.
    ///
    /// # Errors
    /// [`ReplicaArgsError`] names flag, value and what is allowed.
    pub fn settings(&self) -> Result<ReplicaSettings, ReplicaArgsError> {
        if !(5..=600).contains(&self.replica_timeout) {
            return Err(ReplicaArgsError::Timeout(self.replica_timeout));
        }
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
            let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
            return Ok(Whom::Peers(items.map(peer).collect::<Result<_, _>>()?));
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
    value.parse().map_err(|_| ReplicaArgsError::Address {
        flag: "replica-address",
        value: value.to_owned(),
        allowed: "an IP address",
    })
}

fn peer(value: &str) -> Result<Replica, ReplicaArgsError> {
    let address: Option<SocketAddr> = value.parse().ok();
    let address = address.filter(|address| address.port() != 0);
    let address = address.ok_or_else(|| ReplicaArgsError::Address {
        flag: "replica-peers",
        value: value.to_owned(),
        allowed: "an address and port (for example `10.1.2.3:8090`)",
    })?;
    Ok(Replica { address, name: None })
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

    fn settings(flags: &[&str]) -> Result<ReplicaSettings, ReplicaArgsError> {
        let name = ["test", "--replica-name=me"];
        Flags::try_parse_from(name.iter().chain(flags)).unwrap().args.settings()
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
        let peers = ["10.0.0.1:8090", "[fd00::1]:1"].map(|address| peer(address).unwrap());
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
        let refusal = |flag| settings(&[flag]).unwrap_err().to_string();
        assert_eq!(
            refusal("--replica-peers=10.0.0.1"),
            "--replica-peers: `10.0.0.1` is not an address and port (for example `10.1.2.3:8090`)"
        );
        assert_eq!(
            refusal("--replica-address=here"),
            "--replica-address: `here` is not an IP address"
        );
        assert_eq!(
            refusal("--replica-timeout=4"),
            "--replica-timeout: `4` is out of range; 5 to 600"
        );
        assert!(refusal("--replicas-service=Policy").contains("`Policy` is not the name"));
    }
}
