//! The settings as they are understood: read once, checked once, all errors reported at once.

mod admin;
mod capture;
mod discover;
pub mod environment;
mod identity;
mod limits;
mod log;
mod outbound;
mod parse;
mod reader;
mod redirect;
mod sidecar;
mod store;

pub use crate::log::LogConfig;
pub use log::log;
pub use reader::{ConfigError, Environment};
pub use redirect::redirect;

use crate::admin::AdminConfig;
use crate::args::RunArgs;
use crate::discover::DiscoverConfig;
use crate::sidecar::SidecarConfig;
use policy_enforce::record::Format;
use policy_enforce::store::StoreConfig;
use policy_tls::identity::IdentityConfig;
use reader::Reader;
use std::num::NonZeroU16;
use std::time::Duration;

/// All settings of `policy-proxy run`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data path.
    pub sidecar: SidecarConfig,
    /// The store.
    pub store: StoreConfig,
    /// The stream from the controller.
    pub discover: DiscoverConfig,
    /// The admin server.
    pub admin: AdminConfig,
    /// Source of the proxy's identity; absent: it has none.
    pub identity: Option<IdentityConfig>,
    /// The access log's format; absent: no access log.
    pub access_log: Option<Format>,
    /// Time that a metric is exported after it last changed.
    pub retain_idle: Duration,
}

/// Reads all settings of `run`.
///
/// # Errors
/// [`ConfigError`] names each setting that is missing or invalid.
pub fn read(args: &RunArgs, environment: Environment<'_>) -> Result<Config, ConfigError> {
    let mut reader = Reader::new(environment);
    let facts = sidecar::facts(args, &mut reader);
    let discover = discover::discover(args, &mut reader, &facts);
    let mut admin = admin::admin(args, &mut reader, &facts);
    let retain_idle = admin::retain_idle(args, &mut reader);
    let mut sidecar = sidecar::sidecar(args, &mut reader, &facts);
    outbound::read(args, &mut reader, &facts, &mut sidecar);
    let listening = sidecar.listeners.iter().map(|listener| listener.address.port());
    let listening = listening.chain([admin.listen.port()]);
    sidecar.capture = capture::capture(args, &mut reader, listening);
    admin.capture.clone_from(&sidecar.capture);
    limits::read(args, &mut reader, &mut sidecar);
    let store = store::store(args, &mut reader, facts, sidecar.timeouts.detect);
    let identity = identity::identity(args, &mut reader);
    let access_log = log::access_log(args, &mut reader);
    let Some(mut discover) = discover else {
        return reader
            .finish(())
            .and(Err(ConfigError(vec!["--policy-addr: must be given".to_owned()])));
    };
    // The proxy's own admin port is watched too (docs/spec/decisions.md, *Admin port*).
    discover.declared.extend(NonZeroU16::new(admin.listen.port()));
    reader.finish(Config { sidecar, store, discover, admin, identity, access_log, retain_idle })
}

#[cfg(test)]
mod tests;
