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
mod own;

pub use args::{AuthArgsError, ServeAuth, ServeAuthArgs, ViewerTokens};
pub use own::{OwnCertificate, OwnIdentity, OwnIdentityArgs};
// Old path: removed when the callers name the crate.
pub use policy_discovery::{KeyError, KeyReviewer};
pub use policy_kube::{ClusterReviewer, GROUP, RESOURCE, VERB};
pub use policy_proxy::review::Bounded;
pub(crate) use policy_proxy::review::jwt::audience_of;

/// The audience that a viewer's token must have unless another is configured.
pub const AUDIENCE: &str = "portcullis.dev/policy";
