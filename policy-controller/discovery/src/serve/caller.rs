//! Callers of the gRPC services.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::Identity;
use policy_server::review::Subject;
use policy_server::{ClientNetwork, Peer, Share};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// The authenticated caller of a request; in the extensions of every request.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A client certificate with this identity.
    Mesh(Identity),
    /// A user or a tool: its token was reviewed, or its identity is on the list of viewers.
    Viewer(Viewer),
    /// A client certificate with the identity of the controller itself: another replica.
    Controller(Identity),
    /// A plaintext connection over loopback.
    Loopback,
    /// No credentials.
    Anonymous,
}

/// The connection that a request arrived on; in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    /// The client.
    pub(crate) peer: Peer,
    /// The caller that the connection alone proves.
    pub(crate) caller: Caller,
    /// Cancelled when the connection is to end: its age, or shutdown. Streams end with OK then.
    pub(crate) ending: CancellationToken,
    /// The room that the connection takes.
    pub(crate) share: Arc<Share>,
}

/// A caller that may see the policies of others.
#[derive(Clone, Debug)]
pub struct Viewer {
    name: Arc<str>,
    pub(crate) scope: ViewScope,
    expires: Option<Instant>,
    /// Identity of its certificate, if it has one: a viewer may be a workload, too.
    identity: Option<Identity>,
}

/// The policies that a viewer may see.
#[derive(Clone, Debug)]
pub(crate) enum ViewScope {
    /// All of them.
    Everything,
    /// The policies of namespaces where this subject has the permission.
    Granted {
        /// The subject.
        subject: Arc<Subject>,
        /// The network of its client, by which reviews take turns.
        from: ClientNetwork,
    },
}

impl Caller {
    /// Returns the caller of a request with these extensions; anonymous if none was recorded.
    pub fn of(extensions: &http::Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or(Self::Anonymous)
    }

    /// Returns the expiry of the caller's credentials, apart from its connection.
    pub fn expires(&self) -> Option<Instant> {
        match self {
            Self::Viewer(viewer) => viewer.expires,
            Self::Mesh(_) | Self::Controller(_) | Self::Loopback | Self::Anonymous => None,
        }
    }

    /// Returns the status for a caller that lacks a permission; `needed` describes the required
    /// one.
    pub fn refusal(&self, needed: &str) -> Status {
        match self {
            Self::Anonymous => Status::unauthenticated(format!(
                "no credentials: {needed}; a client certificate of the mesh or, where viewers are \
                 admitted, a token in `authorization: Bearer` is needed"
            ))
            .because(StatusReason::NoCredentials),
            Self::Mesh(_) | Self::Viewer(_) | Self::Controller(_) | Self::Loopback => {
                Status::permission_denied(format!("{self} is refused: {needed}"))
                    .because(StatusReason::NotPermitted)
            }
        }
    }

    /// The identity that the connection proved.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Mesh(identity) | Self::Controller(identity) => Some(identity),
            Self::Viewer(_) | Self::Loopback | Self::Anonymous => None,
        }
    }
}

/// The description in messages and logs.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mesh(identity) | Self::Controller(identity) => {
                write!(f, "identity `{}`", identity.as_str())
            }
            Self::Viewer(viewer) => write!(f, "viewer `{}`", viewer.name),
            Self::Loopback => f.write_str("a loopback client"),
            Self::Anonymous => f.write_str("a client without credentials"),
        }
    }
}

impl Viewer {
    /// Creates a viewer that may see everything, by its token.
    pub(crate) fn of_everything(name: &str, expires: Option<Instant>) -> Self {
        Self { name: name.into(), scope: ViewScope::Everything, expires, identity: None }
    }

    /// Creates a viewer that may see everything, by its certificate.
    pub(crate) fn of_identity(identity: Identity) -> Self {
        let identity_of = Some(identity.clone());
        Self { identity: identity_of, ..Self::of_everything(identity.as_str(), None) }
    }

    /// Returns the identity of its certificate.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Creates a viewer whose permissions are reviewed.
    pub(crate) fn granted(
        subject: &Arc<Subject>,
        from: ClientNetwork,
        expires: Option<Instant>,
    ) -> Self {
        let name = subject.user.as_str().into();
        let scope = ViewScope::Granted { subject: subject.clone(), from };
        Self { name, scope, expires, identity: None }
    }

    /// Returns the name of the user, or the identity.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

/// `at` on the clock that does not jump. A time long past is now.
pub(crate) fn instant_of(at: SystemTime) -> Instant {
    let now = Instant::now();
    let left = at.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
    // What is too far away to be counted never comes.
    now.checked_add(left).unwrap_or_else(|| far_from(now))
}

fn far_from(now: Instant) -> Instant {
    now.checked_add(Duration::from_secs(86_400 * 365)).unwrap_or(now)
}
