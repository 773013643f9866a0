//! Who may watch what.
//!
//! | caller | may watch |
//! |---|---|
//! | an identity of the mesh | workloads whose identity is exactly this one |
//! | an identity or user on the list of viewers | everything |
//! | a reviewed token | workloads of namespaces where its subject may `get` `policies.portcullis.dev` |
//! | loopback, in plaintext | everything |
//! | anybody else | nothing |
//!
//! A workload that does not exist and one that a caller may not watch look alike to callers of other
//! namespaces. Nothing here ends in `INVALID_ARGUMENT` or `FAILED_PRECONDITION`: Linkerd's proxies
//! take those as final.
//!
//! **Invariants.** A workload's labels and annotations play no part. Rights are asked for again with
//! each stream; a stream ends when what it stands on goes: the workload's identity, the token.

use super::access_metrics::{AccessMetrics, Unwelcome};
use super::caller::{Caller, Sight, Viewer, instant_of};
use super::refusal::refusal;
use super::stale::Stale;
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

/// Tokens of one peer under review at a time. Reviews take turns, so that one who makes up tokens
/// holds up others by no more than these.
const REVIEWS_PER_PEER: u32 = 16;

/// Refused tokens of one peer. Each costs the API server a review, and the controller room among its
/// requests that the Lease and status need.
const REFUSALS: Rate = Rate { per_second: 1, burst: 20 };

/// What decides who may watch, beside the objects.
#[derive(Clone, Debug, Default)]
pub struct AccessConfig {
    /// Identities and users that may see everything.
    pub viewers: BTreeSet<Arc<str>>,
    /// What the identities of ServiceAccounts end in after their namespace:
    /// `serviceaccount.identity.<control plane's namespace>.<trust domain>`.
    pub identity_suffix: Arc<str>,
    /// Reviews tokens; absent: none is accepted.
    pub reviewer: Option<Arc<dyn Reviewer>>,
}

/// The rules in force.
#[derive(Debug)]
pub(crate) struct Access {
    config: AccessConfig,
    metrics: AccessMetrics,
    reviews: Allowance,
    /// Tokens that were refused.
    refusals: Limit<(ClientNetwork, Option<Arc<str>>)>,
    stale: watch::Receiver<Stale>,
    /// Keeps `stale` open where nobody else does.
    _own: Option<watch::Sender<Stale>>,
}

/// What an open stream stands on.
#[derive(Debug)]
pub(crate) struct Stand {
    /// The identity that the workload must have.
    identity: Option<Identity>,
    own: bool,
    expires: Option<Instant>,
    stale: watch::Receiver<Stale>,
    /// How often a watch had become stale when this began.
    stale_before: u64,
    metrics: AccessMetrics,
}

impl Access {
    pub(crate) fn new(
        config: AccessConfig,
        metrics: AccessMetrics,
        stale: Option<watch::Receiver<Stale>>,
    ) -> Self {
        let (own, stale) = match stale {
            Some(stale) => (None, stale),
            None => {
                let (sender, receiver) = watch::channel(Stale::default());
                (Some(sender), receiver)
            }
        };
        let reviews = Allowance::new(REVIEWS_PER_PEER);
        let refusals = Limit::new(REFUSALS);
        Self { config, metrics, reviews, refusals, stale, _own: own }
    }

    /// Who a certificate makes its client. `own`: the identity of the controller.
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

    /// Who a token that `peer` brings makes its bearer.
    pub(crate) async fn by_token(&self, token: &str, peer: &Peer) -> Result<Caller, Status> {
        let Some(reviewer) = &self.config.reviewer else {
            self.metrics.refused(Unwelcome::TokensNotAccepted);
            return Err(Status::unauthenticated("tokens are not accepted here"));
        };
        let Some(_held) = self.reviews.take(peer) else {
            self.metrics.refused(Unwelcome::TooManyReviews);
            return Err(Status::resource_exhausted(format!(
                "{REVIEWS_PER_PEER} tokens from this address are under review, the most allowed"
            )));
        };
        // A token that was accepted a moment ago costs nobody anything, whoever else is refused.
        let network = (ClientNetwork::of(peer.address), peer.identity.clone());
        let now = || Instant::now().into_std();
        if !reviewer.is_cached(token) && !self.refusals.has_left(&network, now()) {
            self.metrics.refused(Unwelcome::TooManyReviews);
            return Err(Status::resource_exhausted(
                "too many tokens from this address were refused: try again in a second",
            ));
        }
        let reviewed = reviewer.authenticate(token).await;
        if matches!(reviewed, Err(ReviewError::Refused(_))) {
            self.refusals.take(&network, now());
        }
        let authenticated = reviewed.map_err(|error| self.review_failed(error))?;
        self.metrics.reviewed("accepted");
        let expires = Some(instant_of(authenticated.expires));
        let subject = &authenticated.subject;
        Ok(Caller::Viewer(if self.config.viewers.contains(subject.user.as_str()) {
            Viewer::of_everything(&subject.user, expires)
        } else {
            Viewer::granted(subject, expires)
        }))
    }

    /// Whether `caller` may see policies at all, before anything is looked up for it.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<(), Status> {
        match caller {
            Caller::Anonymous => {
                self.metrics.refused(Unwelcome::NoCredentials);
                Err(caller.refusal("policies are for workloads and viewers"))
            }
            Caller::Mesh(_) | Caller::Viewer(_) | Caller::Controller(_) | Caller::Loopback => {
                Ok(())
            }
        }
    }

    /// Opens `key` for `caller`: the workload's state, and what the stream stands on.
    pub(crate) async fn open(
        &self,
        policies: &Policies,
        caller: &Caller,
        key: &WorkloadKey,
    ) -> Result<(Latest<Arc<PublishedWorkload>>, Stand), Status> {
        self.admit(caller)?;
        if let Caller::Viewer(viewer) = caller {
            self.may_view(caller, viewer, Some(&key.namespace)).await?;
        }
        let state = match policies.workload(key).await {
            Ok(state) => state,
            Err(LookupError::NotFound) if !self.may_know(caller, key) => {
                return Err(self.stranger(caller, key));
            }
            Err(error) => return Err(refusal(key, NonZeroU16::MIN, error)),
        };
        // A viewer may be a workload besides, and has in force what its own proxy says.
        let own = match caller {
            Caller::Viewer(viewer) => {
                let identity = viewer.identity().cloned();
                identity.filter(|identity| *identity.as_str() == *state.current().identity)
            }
            Caller::Mesh(_) | Caller::Controller(_) | Caller::Loopback | Caller::Anonymous => {
                caller.identity().cloned()
            }
        };
        let stand = Stand {
            own: own.is_some() || !matches!(caller, Caller::Viewer(_)),
            identity: own,
            expires: caller.expires(),
            stale: self.stale.clone(),
            stale_before: self.stale.borrow().times,
            metrics: self.metrics.clone(),
        };
        if !stand.suits(&state.current()) {
            return Err(match self.may_know(caller, key) {
                true => self.neighbour(caller, &state.current()),
                false => self.stranger(caller, key),
            });
        }
        Ok((state, stand))
    }

    /// Whether `caller` may see what is told of every object of the cluster.
    pub(crate) async fn may_view_all(&self, caller: &Caller) -> Result<(), Status> {
        self.admit(caller)?;
        match caller {
            Caller::Controller(_) | Caller::Loopback => Ok(()),
            Caller::Viewer(viewer) => self.may_view(caller, viewer, None).await,
            Caller::Mesh(_) | Caller::Anonymous => {
                self.metrics.refused(Unwelcome::OtherIdentity);
                Err(caller.refusal("this is for viewers"))
            }
        }
    }

    /// Whether `caller` may see what is told of the objects of a namespace; empty: of all.
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

    /// Whether `caller` is the controller: what replicas tell each other is for them alone.
    pub(crate) fn may_replicate(&self, caller: &Caller) -> Result<(), Status> {
        self.admit(caller)?;
        match caller {
            Caller::Controller(_) | Caller::Loopback => Ok(()),
            Caller::Mesh(_) | Caller::Viewer(_) | Caller::Anonymous => {
                self.metrics.refused(Unwelcome::OtherIdentity);
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
        let subject = match &viewer.sight {
            Sight::Everything => return Ok(()),
            Sight::Granted(subject) => subject,
        };
        let allowed = match &self.config.reviewer {
            Some(reviewer) => reviewer.may_view(subject, namespace).await,
            None => Ok(false),
        };
        if allowed.map_err(|error| self.review_failed(error))? {
            return Ok(());
        }
        self.metrics.refused(Unwelcome::NoRight);
        let place = match namespace {
            Some(namespace) => format!("in namespace `{namespace}`"),
            None => "in all namespaces".to_owned(),
        };
        Err(caller
            .refusal(&format!("the right to get `policies` of group `portcullis.dev` {place}")))
    }

    /// Whether `caller` may learn whether the workload exists: it lives in the same namespace, or
    /// may see everything there.
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

    fn neighbour(&self, caller: &Caller, state: &WorkloadState) -> Status {
        self.metrics.refused(Unwelcome::OtherIdentity);
        let needed = format!("`{}` is watched by identity `{}`", state.key, state.identity);
        caller.refusal(&needed)
    }

    /// The same whether or not there is such a workload.
    fn stranger(&self, caller: &Caller, key: &WorkloadKey) -> Status {
        self.metrics.refused(Unwelcome::OtherIdentity);
        let needed = match key.kind {
            policy_core::WorkloadKind::Pod => {
                format!("`<service account>.{}.{}`", key.namespace, self.config.identity_suffix)
            }
            policy_core::WorkloadKind::ExternalWorkload => "of its spec.meshTLS".to_owned(),
        };
        caller.refusal(&format!("`{key}`, if it exists, is watched by the identity {needed}"))
    }

    fn review_failed(&self, error: ReviewError) -> Status {
        match error {
            ReviewError::Refused(reason) => {
                self.metrics.reviewed("refused");
                self.metrics.refused(Unwelcome::TokenRefused);
                Status::unauthenticated(format!("the token is refused: {reason}"))
            }
            ReviewError::Unavailable(reason) => {
                self.metrics.reviewed("failed");
                self.metrics.refused(Unwelcome::ReviewFailed);
                Status::unavailable(format!("the token cannot be reviewed: {reason}"))
            }
        }
    }
}

impl Stand {
    /// Whether the stream is the workload's own, so that what it says it has in force counts. What
    /// comes by loopback is believed.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// Whether the workload is still one that the caller stands for.
    fn suits(&self, state: &WorkloadState) -> bool {
        let own = self.identity.as_ref();
        own.is_none_or(|identity| *identity.as_str() == *state.identity)
    }

    /// The same, as the end of a stream that was open.
    pub(crate) fn holds(&self, state: &WorkloadState) -> Result<(), Status> {
        if self.suits(state) {
            return Ok(());
        }
        self.metrics.refused(Unwelcome::IdentityChanged);
        let seen = self.identity.as_ref().map_or("", Identity::as_str);
        Err(Status::permission_denied(format!(
            "the identity of `{}` has changed and is not `{seen}` any more",
            state.key
        )))
    }

    /// Waits until the stream has to end though the workload is there: its token has expired, or
    /// what it is told may be out of date.
    pub(crate) async fn lost(&mut self) -> Status {
        let expires = self.expires;
        let expired = async {
            match expires {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expired => {
                self.metrics.refused(Unwelcome::TokenExpired);
                Status::unauthenticated("the token has expired")
            }
            status = super::stale::became_stale(&mut self.stale, self.stale_before) => status,
        }
    }
}
