//! Address and identity of a client.

use super::error::ExpectError;
use super::expectation::{Client, Expectation};
use crate::local_mesh::cluster_address;
use policy_core::{Facts, Identity};
use policy_engine::ControllerConfig;
use std::net::IpAddr;

/// Address and identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientEndpoint {
    /// Its address.
    pub(crate) address: IpAddr,
    /// The identity that it proves.
    pub(crate) identity: Option<Identity>,
}

/// Resolves clients of expectations.
pub(crate) struct ClientResolver<'a> {
    pub(crate) config: &'a ControllerConfig,
}

impl ClientResolver<'_> {
    /// Returns the address and identity of a client, seen from a workload with these facts.
    ///
    /// # Errors
    /// A ServiceAccount that is not `namespace/name`, or an empty list of cluster networks.
    pub(crate) fn resolve(
        &self,
        expectation: &Expectation,
        facts: &Facts,
    ) -> Result<ClientEndpoint, ExpectError> {
        let client = &expectation.from;
        let invalid = |message: String| ExpectError::InvalidRequest {
            name: expectation.name.clone(),
            message,
        };
        let address = match client.address {
            Some(address) => address,
            None if client.node => match facts.node_local.first() {
                Some(network) => network.addr(),
                None => return Err(invalid("the pod's node has no known address".to_owned())),
            },
            None => cluster_address(&self.config.cluster_networks).ok_or_else(|| {
                invalid("the cluster has no networks; give an address".to_owned())
            })?,
        };
        let identity = self.identity(client).map_err(invalid)?;
        Ok(ClientEndpoint { address, identity })
    }

    fn identity(&self, client: &Client) -> Result<Option<Identity>, String> {
        if let Some(account) = &client.service_account {
            let (namespace, name) = account
                .split_once('/')
                .ok_or_else(|| format!("serviceAccount: `{account}` is not namespace/name"))?;
            return Ok(Some(Identity::Dns(self.config.service_account_identity(namespace, name))));
        }
        Ok(client.identity.as_deref().map(|name| {
            if name.starts_with("spiffe://") {
                Identity::Spiffe(name.into())
            } else {
                Identity::Dns(name.into())
            }
        }))
    }
}
