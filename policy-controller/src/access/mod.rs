//! Who viewers are and what they may see: asked of the API server, or told by supplied keys.
//!
//! ```text
//! serve ──token──▶ Bounded (cache, time limit, concurrency)
//!                    ├─ ClusterReviewer: TokenReview, SubjectAccessReview
//!                    └─ KeyReviewer: signature, issuer, audience, time
//! ```
//! **Invariants.** A token of another audience stands for nobody. Nothing is remembered for longer
//! than the token lives, and no token is kept: only its hash.

mod args;
mod bounded;
mod cluster;
mod jwt;
mod keys;
mod own;

pub use args::{AuthArgsError, ServeAuth, ServeAuthArgs, ViewerTokens};
pub use bounded::Bounded;
pub use cluster::ClusterReviewer;
pub(crate) use jwt::audience_of;
pub use keys::{KeyError, KeyReviewer};
pub use own::{OwnCertificate, OwnIdentity, OwnIdentityArgs};

/// The audience that a viewer's token must have unless another is configured.
pub const AUDIENCE: &str = "portcullis.dev/policy";

/// The group of the virtual resource that viewers need a right on.
pub const GROUP: &str = "portcullis.dev";

/// The virtual resource that viewers need a right on.
pub const RESOURCE: &str = "policies";

/// The right that viewers need.
pub const VERB: &str = "get";
