//! Client configurations of TLS, each built once per identity of a server and of our own.

use super::carrier::identity;
use foldhash::HashMap;
use parking_lot::Mutex;
use policy_tls::identity::{DIRECT_ALPN, IdentityError, IdentityHandle, TlsIdentity};
use rustls::ClientConfig;
use std::sync::Arc;

/// The configurations by which servers of the mesh are reached, shared by all connections.
#[derive(Debug)]
pub struct MeshClients {
    identity: IdentityHandle,
    cache: Mutex<Cache>,
}

/// A configuration, and the identity of our own that it presents.
#[derive(Clone, Debug)]
pub struct MeshClient {
    /// Our own identity.
    pub own: Arc<TlsIdentity>,
    /// The configuration.
    pub config: Arc<ClientConfig>,
}

/// The reason for which there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no certificate of our own yet.
    #[error("the proxy has no certificate yet")]
    NoIdentity,
    /// Our own certificate is not usable.
    #[error(transparent)]
    Unusable(#[from] IdentityError),
}

#[derive(Debug, Default)]
struct Cache {
    /// The identity that the configurations are of.
    own: Option<Arc<TlsIdentity>>,
    /// By the server's identity, and by whether the connection goes to the sidecar's own port.
    configs: HashMap<(Arc<str>, bool), Arc<ClientConfig>>,
}

impl MeshClients {
    /// Returns the configurations of `identity`.
    pub fn new(identity: IdentityHandle) -> Self {
        Self { identity, cache: Mutex::default() }
    }

    /// Waits until there is a certificate of our own.
    pub async fn ready(&self) {
        self.identity.present().await;
    }

    /// Returns the configuration for a server that must prove `server`. `direct`: true for the
    /// sidecar's own port, where the transport header's protocol is negotiated.
    ///
    /// # Errors
    /// [`ClientError`]: our own certificate is missing or not usable.
    pub fn client(&self, server: &Arc<str>, direct: bool) -> Result<MeshClient, ClientError> {
        let own = self.identity.current().clone().ok_or(ClientError::NoIdentity)?;
        let mut cache = self.cache.lock();
        // A renewed certificate and changed roots take effect with the next connection.
        let is_current = cache.own.as_ref().is_some_and(|known| Arc::ptr_eq(known, &own));
        if !is_current || cache.configs.len() >= MAX_CONFIGS {
            *cache = Cache { own: Some(Arc::clone(&own)), configs: HashMap::default() };
        }
        if let Some(config) = cache.configs.get(&(Arc::clone(server), direct)) {
            return Ok(MeshClient { own, config: Arc::clone(config) });
        }
        let mut config = own.client(identity(server))?;
        if direct {
            config.alpn_protocols = vec![DIRECT_ALPN.to_vec()];
        }
        let config = Arc::new(config);
        cache.configs.insert((Arc::clone(server), direct), Arc::clone(&config));
        Ok(MeshClient { own, config })
    }
}

/// Configurations that are kept at most.
const MAX_CONFIGS: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use policy_testkit::{Authority, Leaf, dns};
    use policy_tls::identity::Credentials;

    fn own(authority: &Authority) -> TlsIdentity {
        let Leaf { chain, key, .. } = authority.leaf(&[dns("web.example")]);
        let (server_name, roots) = ("web.example".into(), vec![authority.root()]);
        TlsIdentity::new(Credentials { server_name, roots, chain, key }).unwrap()
    }

    #[test]
    fn a_configuration_is_built_once_per_server_and_identity() {
        let (authority, handle) = (Authority::new(), IdentityHandle::empty());
        let clients = MeshClients::new(handle.clone());
        let (a, b): (Arc<str>, Arc<str>) = ("a.example".into(), "b.example".into());
        assert!(matches!(clients.client(&a, false), Err(ClientError::NoIdentity)));
        handle.replace(own(&authority));
        let config = |server, direct| clients.client(server, direct).unwrap().config;
        let first = config(&a, false);
        let again: Arc<str> = "a.example".into();
        assert!(Arc::ptr_eq(&first, &config(&again, false)));
        assert!(!Arc::ptr_eq(&first, &config(&b, false)));
        let direct = config(&a, true);
        assert_eq!(direct.alpn_protocols, [DIRECT_ALPN]);
        assert_eq!(first.alpn_protocols, Vec::<Vec<u8>>::new());
        handle.replace(own(&authority));
        assert!(!Arc::ptr_eq(&first, &config(&a, false)), "another certificate");
    }

    #[test]
    fn servers_without_number_cost_a_bounded_memory() {
        let clients = MeshClients::new(IdentityHandle::new(own(&Authority::new())));
        for number in 0..MAX_CONFIGS.saturating_mul(2) {
            clients.client(&format!("a{number}.example").into(), false).unwrap();
        }
        assert!(clients.cache.lock().configs.len() <= MAX_CONFIGS);
    }
}
