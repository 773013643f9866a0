//! Authorization of watches.
//!
//! | caller | may watch |
//! |---|---|
//! | an identity of the mesh | workloads whose identity is exactly this one |
//! | an identity or user on the list of viewers | everything |
//! | a reviewed token | workloads of namespaces where its subject may `get` `policies.portcullis.dev` |
//! | loopback, in plaintext | everything |
//! | any other caller | nothing |
//!
//! Where connections lead, any identity of the mesh may ask, and loopback: it is what DNS and a
//! connection tell it, too.
//!
//! A workload that does not exist and one that a caller may not watch look alike to callers of other
//! namespaces. Nothing here ends in `INVALID_ARGUMENT` or `FAILED_PRECONDITION`: Linkerd's proxies
//! take those as final.
//!
//! **Invariants.** A workload's labels and annotations play no part. Permissions are reviewed again for
//! each stream; a stream ends with the identity or token that it was authorized by.

use super::authz_metrics::{AuthzMetrics, RejectReason};
use super::caller::{Caller, ViewScope, Viewer, instant_of};
use super::refusal::refusal;
use super::stale::StaleNotice;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::{Identity, WorkloadKey};
use policy_engine::handles::Policies;
use policy_engine::latest::Latest;
use policy_engine::publish::{LookupError, PublishedWorkload, WorkloadState};
use policy_server::review::{ReviewError, Reviewer};
use policy_server::{Allowance, ClientNetwork, Limit, Peer, Rate};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

/// Tokens of one peer under review at a time. Reviews take turns, so that a peer with forged tokens
/// delays others by no more than these.
const REVIEWS_PER_PEER: u32 = 16;

/// Rejected tokens of one peer. Each costs a TokenReview, and a share of the request budget that the
/// Lease and status need.
const REFUSALS: Rate = Rate { per_second: 1, burst: 20 };

/// Settings of authorization, beside the objects.
#[derive(Clone, Debug, Default)]
pub struct AuthzConfig {
    /// Identities and users that may see everything.
    pub viewers: BTreeSet<Arc<str>>,
    /// Suffix of the identities of ServiceAccounts, after their namespace:
    /// `serviceaccount.identity.<control plane's namespace>.<trust domain>`.
    pub identity_suffix: Arc<str>,
    /// Reviews tokens; absent: none is accepted.
    pub reviewer: Option<Arc<dyn Reviewer>>,
}

/// The rules in force.
#[derive(Debug)]
pub(crate) struct Authorizer {
    config: AuthzConfig,
    metrics: AuthzMetrics,
    reviews: Allowance,
    /// Tokens that were refused.
    refusals: Limit<(ClientNetwork, Option<Arc<str>>)>,
    stale: watch::Receiver<StaleNotice>,
    /// Keeps `stale` open where there is no other sender.
    _own: Option<watch::Sender<StaleNotice>>,
}

/// The authorization that an open stream depends on.
#[derive(Debug)]
pub(crate) struct WatchGrant {
    /// The identity that the workload must have.
    identity: Option<Identity>,
    own: bool,
    expires: Option<Instant>,
    stale: watch::Receiver<StaleNotice>,
    /// [`StaleNotice::times`] when the stream began.
    stale_before: u64,
    metrics: AuthzMetrics,
}

impl Authorizer {
    pub(crate) fn new(
        config: AuthzConfig,
        metrics: AuthzMetrics,
        stale: Option<watch::Receiver<StaleNotice>>,
    ) -> Self {
        let (own, stale) = match stale {
            Some(stale) => (None, stale),
            None => {
                let (sender, receiver) = watch::channel(StaleNotice::default());
                (Some(sender), receiver)
            }
        };
        let reviews = Allowance::new(REVIEWS_PER_PEER);
        let refusals = Limit::new(REFUSALS);
        Self { config, metrics, reviews, refusals, stale, _own: own }
    }

    /// Returns the caller that a certificate proves. `own`: the identity of the controller.
    pub(crate) fn by_certificate(
        &self,
        identity: Option<Identity>,
        own: Option<&Identity>,
    ) -> Caller {
        match identity {
            None => Caller::Anonymous,
            Some(identity) if own == Some(&identity) => Caller::Controller(identity),
            Some(identity) if self.config.viewers.contains(identity.as_str()) => {
                Caller::Viewer(Viewer::of_identity(identity))
            }
            Some(identity) => Caller::Mesh(identity),
        }
    }

    /// Returns the caller that a token from `peer` proves.
    pub(crate) async fn by_token(&self, token: &str, peer: &Peer) -> Result<Caller, Status> {
        let Some(reviewer) = &self.config.reviewer else {
            self.metrics.refused(RejectReason::TokensNotAccepted);
            return Err(Status::unauthenticated("tokens are not accepted here")
                .because(StatusReason::TokensNotAccepted));
        };
        let Some(_held) = self.reviews.take(peer) else {
            self.metrics.refused(RejectReason::TooManyReviews);
            return Err(Status::resource_exhausted(format!(
                "{REVIEWS_PER_PEER} tokens from this address are under review, the most allowed"
            ))
            .because(StatusReason::TooManyTokens));
        };
        // A token that was accepted a moment ago needs no review, however many others were refused.
        let network = (ClientNetwork::of(peer.address), peer.identity.clone());
        let now = || Instant::now().into_std();
        if !reviewer.is_cached(token) && !self.refusals.has_left(&network, now()) {
            self.metrics.refused(RejectReason::TooManyReviews);
            return Err(Status::resource_exhausted(
                "too many tokens from this address were refused: try again in a second",
            )
            .because(StatusReason::TooManyTokens));
        }
        let reviewed = reviewer.authenticate(token, network.0).await;
        if matches!(reviewed, Err(ReviewError::Refused(_))) {
            self.refusals.take(&network, now());
        }
        let authenticated = reviewed.map_err(|error| self.review_error(error))?;
        self.metrics.reviewed("accepted");
        let expires = Some(instant_of(authenticated.expires));
        let subject = &authenticated.subject;
        Ok(Caller::Viewer(if self.config.viewers.contains(subject.user.as_str()) {
            Viewer::of_everything(&subject.user, expires)
        } else {
            Viewer::granted(subject, network.0, expires)
        }))
    }

    /// Checks that `caller` may see policies at all, before anything is looked up for it.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<(), Status> {
        match caller {
            Caller::Anonymous => {
                self.metrics.refused(RejectReason::NoCredentials);
                Err(caller.refusal("policies are for workloads and viewers"))
            }
            Caller::Mesh(_) | Caller::Viewer(_) | Caller::Controller(_) | Caller::Loopback => {
                Ok(())
            }
        }
    }

    /// Opens `key` for `caller`. Returns the workload's state, and the authorization of the stream.
    pub(crate) async fn open(
        &self,
        policies: &Policies,
        caller: &Caller,
        key: &WorkloadKey,
    ) -> Result<(Latest<Arc<PublishedWorkload>>, WatchGrant), Status> {
        self.admit(caller)?;
        if let Caller::Viewer(viewer) = caller {
            self.may_view(caller, viewer, Some(&key.namespace)).await?;
        }
        let state = match policies.workload(key).await {
            Ok(state) => state,
            Err(LookupError::NotFound) if !self.may_know(caller, key) => {
                return Err(self.hidden_workload(caller, key));
            }
            Err(error) => return Err(refusal(key, NonZeroU16::MIN, error)),
        };
        // A viewer may be a workload besides, whose acknowledgements count.
        let own = match caller {
            Caller::Viewer(viewer) => {
                let identity = viewer.identity().cloned();
                identity.filter(|identity| *identity.as_str() == *state.current().identity)
            }
            Caller::Mesh(_) | Caller::Controller(_) | Caller::Loopback | Caller::Anonymous => {
                caller.identity().cloned()
            }
        };
        let grant = WatchGrant {
            own: own.is_some() || !matches!(caller, Caller::Viewer(_)),
            identity: own,
            expires: caller.expires(),
            stale: self.stale.clone(),
            stale_before: self.stale.borrow().times,
            metrics: self.metrics.clone(),
        };
        if !grant.covers(&state.current()) {
            return Err(match self.may_know(caller, key) {
                true => self.other_identity(caller, &state.current()),
                false => self.hidden_workload(caller, key),
            });
        }
        Ok((state, grant))
    }

    /// Authorizes `caller` to learn where connections lead.
    pub(crate) fn may_discover(&self, caller: &Caller) -> Result<WatchGrant, Status> {
        self.admit(caller)?;
        match caller {
            Caller::Mesh(_) | Caller::Controller(_) | Caller::Loopback => {}
            Caller::Viewer(viewer) if viewer.identity().is_some() => {}
            Caller::Viewer(_) | Caller::Anonymous => {
                self.metrics.refused(RejectReason::OtherIdentity);
                return Err(caller.refusal("destinations are for identities of the mesh"));
            }
        }
        Ok(WatchGrant {
            identity: None,
            own: false,
            expires: caller.expires(),
            stale: self.stale.clone(),
            stale_before: self.stale.borrow().times,
            metrics: self.metrics.clone(),
        })
    }

    /// Returns the status for a caller that may see policies, and is not the workload that it names.
    pub(crate) fn not_a_workload(&self, caller: &Caller) -> Status {
        self.metrics.refused(RejectReason::OtherIdentity);
        caller.refusal("destinations are for workloads of the mesh, each for its own connections")
    }

    /// Checks that `caller` may see the status of every object of the cluster.
    pub(crate) async fn may_view_all(&self, caller: &Caller) -> Result<(), Status> {
        self.admit(caller)?;
        match caller {
            Caller::Controller(_) | Caller::Loopback => Ok(()),
            Caller::Viewer(viewer) => self.may_view(caller, viewer, None).await,
            Caller::Mesh(_) | Caller::Anonymous => {
                self.metrics.refused(RejectReason::OtherIdentity);
                Err(caller.refusal("this is for viewers"))
            }
        }
    }

    /// Checks that `caller` may see the status of the objects of a namespace; empty: of all.
    pub(crate) async fn may_view_objects(
        &self,
        caller: &Caller,
        namespace: &str,
    ) -> Result<(), Status> {
        match caller {
            Caller::Viewer(viewer) if !namespace.is_empty() => {
                self.may_view(caller, viewer, Some(namespace)).await
            }
            Caller::Viewer(_)
            | Caller::Mesh(_)
            | Caller::Controller(_)
            | Caller::Loopback
            | Caller::Anonymous => self.may_view_all(caller).await,
        }
    }

    /// Checks that `caller` is the controller: only replicas may see each other's reports.
    pub(crate) fn may_replicate(&self, caller: &Caller) -> Result<(), Status> {
        self.admit(caller)?;
        match caller {
            Caller::Controller(_) | Caller::Loopback => Ok(()),
            Caller::Mesh(_) | Caller::Viewer(_) | Caller::Anonymous => {
                self.metrics.refused(RejectReason::OtherIdentity);
                Err(caller.refusal("this is for replicas of the controller"))
            }
        }
    }

    async fn may_view(
        &self,
        caller: &Caller,
        viewer: &Viewer,
        namespace: Option<&str>,
    ) -> Result<(), Status> {
        let (subject, from) = match &viewer.scope {
            ViewScope::Everything => return Ok(()),
            ViewScope::Granted { subject, from } => (subject, *from),
        };
        let allowed = match &self.config.reviewer {
            Some(reviewer) => reviewer.may_view(subject, namespace, from).await,
            None => Ok(false),
        };
        if allowed.map_err(|error| self.review_error(error))? {
            return Ok(());
        }
        self.metrics.refused(RejectReason::NoRight);
        let place = match namespace {
            Some(namespace) => format!("in namespace `{namespace}`"),
            None => "in all namespaces".to_owned(),
        };
        Err(caller
            .refusal(&format!("the right to get `policies` of group `portcullis.dev` {place}")))
    }

    /// True if `caller` may learn whether the workload exists: it is in the same namespace, or may
    /// see everything there.
    fn may_know(&self, caller: &Caller, key: &WorkloadKey) -> bool {
        match caller {
            Caller::Viewer(_) | Caller::Loopback => true,
            Caller::Anonymous => false,
            Caller::Mesh(identity) | Caller::Controller(identity) => match identity {
                // A namespace is one label, so that the name before it cannot reach into it.
                Identity::Dns(name) => name
                    .strip_suffix(&*self.config.identity_suffix)
                    .and_then(|rest| rest.strip_suffix('.'))
                    .and_then(|rest| rest.strip_suffix(&*key.namespace))
                    .and_then(|rest| rest.strip_suffix('.'))
                    .is_some_and(|account| !account.is_empty()),
                Identity::Spiffe(_) => false,
            },
        }
    }

    fn other_identity(&self, caller: &Caller, state: &WorkloadState) -> Status {
        self.metrics.refused(RejectReason::OtherIdentity);
        let needed = format!("`{}` is watched by identity `{}`", state.key, state.identity);
        caller.refusal(&needed)
    }

    /// Returns the status for a workload of another namespace, equal whether or not the workload
    /// exists.
    fn hidden_workload(&self, caller: &Caller, key: &WorkloadKey) -> Status {
        self.metrics.refused(RejectReason::OtherIdentity);
        let needed = match key.kind {
            policy_core::WorkloadKind::Pod => {
                format!("`<service account>.{}.{}`", key.namespace, self.config.identity_suffix)
            }
            policy_core::WorkloadKind::ExternalWorkload => "of its spec.meshTLS".to_owned(),
        };
        caller.refusal(&format!("`{key}`, if it exists, is watched by the identity {needed}"))
    }

    fn review_error(&self, error: ReviewError) -> Status {
        match error {
            ReviewError::Refused(reason) => {
                self.metrics.reviewed("refused");
                self.metrics.refused(RejectReason::TokenRefused);
                Status::unauthenticated(format!("the token is refused: {reason}"))
                    .because(StatusReason::TokenRefused)
            }
            ReviewError::Unavailable(reason) => {
                self.metrics.reviewed("failed");
                self.metrics.refused(RejectReason::ReviewFailed);
                Status::unavailable(format!("the token cannot be reviewed: {reason}"))
                    .because(StatusReason::TokenNotReviewed)
            }
        }
    }
}

impl WatchGrant {
    /// True if the stream is the workload's own, so that its acknowledgements count. Clients over
    /// loopback are trusted.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// True if the workload still has the identity that was authorized.
    fn covers(&self, state: &WorkloadState) -> bool {
        let own = self.identity.as_ref();
        own.is_none_or(|identity| *identity.as_str() == *state.identity)
    }

    /// Returns the status that ends an open stream unless the grant still covers the workload.
    pub(crate) fn check(&self, state: &WorkloadState) -> Result<(), Status> {
        if self.covers(state) {
            return Ok(());
        }
        self.metrics.refused(RejectReason::IdentityChanged);
        let seen = self.identity.as_ref().map_or("", Identity::as_str);
        Err(Status::permission_denied(format!(
            "the identity of `{}` has changed and is not `{seen}` any more",
            state.key
        ))
        .because(StatusReason::IdentityChanged))
    }

    /// Waits until the stream has to end although the workload exists: its token has expired, or
    /// its policies may be out of date.
    pub(crate) async fn revoked(&mut self) -> Status {
        tokio::select! {
            status = expiry(self.expires, &self.metrics) => status,
            status = super::stale::became_stale(&mut self.stale, self.stale_before) => status,
        }
    }
}

/// Waits until credentials expire, and returns the status that ends their stream.
pub(crate) async fn expiry(at: Option<Instant>, metrics: &AuthzMetrics) -> Status {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
    metrics.refused(RejectReason::TokenExpired);
    Status::unauthenticated("the token has expired").because(StatusReason::TokenExpired)
}
