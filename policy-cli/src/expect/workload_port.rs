//! A port of a workload in a file of expectations.

use policy_core::{WorkloadKey, WorkloadKind};
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU16;
use std::str::FromStr;

/// `namespace/pod:port`, or `namespace/externalworkload/name:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadPort {
    /// Namespace.
    pub namespace: String,
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Name of the pod or ExternalWorkload.
    pub name: String,
    /// Port.
    pub port: NonZeroU16,
}

impl WorkloadPort {
    /// The key of the workload.
    pub fn key(&self) -> WorkloadKey {
        let (namespace, name) = (self.namespace.as_str().into(), self.name.as_str().into());
        WorkloadKey { namespace, kind: self.kind, name }
    }
}

impl std::fmt::Display for WorkloadPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.key(), self.port)
    }
}

impl FromStr for WorkloadPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "`{text}` is neither namespace/pod:port nor namespace/externalworkload/name:port"
            )
        };
        let (workload, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let (namespace, name) = workload.split_once('/').ok_or_else(wrong)?;
        let (kind, name) = match name.strip_prefix("externalworkload/") {
            Some(name) => (WorkloadKind::ExternalWorkload, name),
            None => (WorkloadKind::Pod, name),
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { namespace: namespace.to_owned(), kind, name: name.to_owned(), port })
    }
}

impl<'de> Deserialize<'de> for WorkloadPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_port_is_read_strictly() {
        let port: WorkloadPort = "shop/web-0:8080".parse().unwrap();
        assert_eq!(
            (port.namespace.as_str(), port.name.as_str(), port.port.get()),
            ("shop", "web-0", 8080)
        );
        let outside: WorkloadPort = "shop/externalworkload/vm:8080".parse().unwrap();
        assert_eq!(outside.key(), WorkloadKey::external("shop", "vm"));
        assert_eq!(outside.to_string(), "shop/externalworkload/vm:8080");
        for wrong in [
            "web:80",
            "shop/web",
            "shop/web:0",
            "shop/web:http",
            "/web:80",
            "a/b/c:1",
            "a/externalworkload/:1",
        ] {
            assert!(wrong.parse::<WorkloadPort>().is_err(), "{wrong}");
        }
    }
}
