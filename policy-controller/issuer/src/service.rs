//! Linkerd's identity API: `io.linkerd.proxy.identity.Identity/Certify`.

use super::authority::Lifetime;
use super::csr::{self, CsrError};
use super::message::ClientConnection;
use super::metrics::IssuerMetrics;
use super::signer::{SignError, SignedCertificate, Signer};
use super::token::{ServiceAccount, TokenError, Tokens};
use policy_engine::config::ControllerConfig;
use policy_kube::rotation::secret::timestamp;
use policy_proto::linkerd::identity::identity_server::Identity;
use policy_proto::linkerd::identity::{CertifyRequest, CertifyResponse};
use policy_server::log::ClientLines;
use policy_server::{ClientNetwork, FairScheduler, Limit, Peer};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tonic::{Request, Response, Status};

/// Maximum length of a DNS name.
const MAX_NAME: usize = 253;

/// Token reviews at once: as many as a reviewer makes.
const REVIEWS: usize = 8;

/// Issues certificates.
#[derive(Debug)]
pub(super) struct Certifier {
    pub(super) config: ControllerConfig,
    pub(super) lifetime: Lifetime,
    pub(super) tokens: Tokens,
    pub(super) signer: Signer,
    /// Requests of one pod of a service account.
    pub(super) limit: Limit<ServiceAccount>,
    /// Turns of token reviews, fair to client networks.
    pub(super) turns: FairScheduler,
    pub(super) timeout: Duration,
    /// Lines about refused requests.
    pub(super) lines: ClientLines,
    pub(super) metrics: IssuerMetrics,
}

/// Error of a request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum CertifyError {
    #[error("too many requests of {0}; try again in a second")]
    TooMany(ServiceAccount),
    #[error("identity: it has {0} bytes (allowed: {MAX_NAME})")]
    LongName(usize),
    #[error("token: {0}")]
    Token(#[from] TokenError),
    #[error(
        "identity: the service account {name} of namespace {namespace} has no identity: its name is not a DNS name"
    )]
    Nameless { namespace: String, name: String },
    #[error("identity: the token is for `{allowed}`, but the request is for `{requested}`")]
    OtherIdentity { allowed: Arc<str>, requested: String },
    #[error("certificate_signing_request: {0}")]
    Csr(#[from] CsrError),
    #[error("no certificate can be issued: {0}")]
    Sign(#[from] SignError),
    #[error("timed out after {} s", .0.as_secs())]
    Timeout(Duration),
}

impl CertifyError {
    /// Returns the reason as a metric label.
    fn label(&self) -> &'static str {
        match self {
            Self::TooMany(_) => "too_many",
            Self::LongName(_) | Self::Nameless { .. } => "identity_malformed",
            Self::Token(TokenError::Refused(_)) => "token_refused",
            Self::Token(TokenError::Unavailable(_)) => "token_unavailable",
            Self::OtherIdentity { .. } => "other_identity",
            Self::Csr(error) => error.label(),
            Self::Sign(_) => "no_authority",
            Self::Timeout(_) => "late",
        }
    }

    fn status(&self) -> Status {
        let text = self.to_string();
        match self {
            Self::TooMany(_) => Status::resource_exhausted(text),
            Self::LongName(_) | Self::Csr(_) => Status::invalid_argument(text),
            Self::Token(TokenError::Refused(_)) => Status::unauthenticated(text),
            Self::Nameless { .. } | Self::OtherIdentity { .. } => Status::permission_denied(text),
            Self::Token(TokenError::Unavailable(_)) | Self::Sign(_) | Self::Timeout(_) => {
                Status::unavailable(text)
            }
        }
    }
}

impl Certifier {
    /// Returns the turns of token reviews.
    pub(super) fn turns() -> FairScheduler {
        FairScheduler::new(REVIEWS)
    }

    async fn certify(
        &self,
        from: IpAddr,
        connection: Option<&ClientConnection>,
        request: &CertifyRequest,
    ) -> Result<(SignedCertificate, ServiceAccount), CertifyError> {
        if request.identity.len() > MAX_NAME {
            return Err(CertifyError::LongName(request.identity.len()));
        }
        let network = ClientNetwork::of(from);
        let turn = self.turns.acquire(network, 1).await;
        let _work = connection.map(ClientConnection::at_work);
        let account = self.tokens.review(&request.token, network).await?;
        drop(turn);
        if !self.limit.take(&account, Instant::now()) {
            return Err(CertifyError::TooMany(account));
        }
        let ServiceAccount { namespace, name, .. } = &account;
        let identity = self.config.certifiable_identity(namespace, name);
        let Some(allowed) = identity else {
            let (namespace, name) = (namespace.clone(), name.clone());
            return Err(CertifyError::Nameless { namespace, name });
        };
        if *request.identity != *allowed {
            let requested = request.identity.escape_debug().to_string();
            return Err(CertifyError::OtherIdentity { allowed, requested });
        }
        let key = csr::check(&request.certificate_signing_request, &allowed)?;
        let now = (Instant::now(), SystemTime::now());
        let signed = self.signer.sign(&key, &allowed, self.lifetime, now)?;
        Ok((signed, account))
    }
}

/// Writes the audit log line of an issued certificate.
fn audit(
    from: IpAddr,
    request: &CertifyRequest,
    signed: &SignedCertificate,
    account: &ServiceAccount,
) {
    let ServiceAccount { namespace, name, pod } = account;
    tracing::info!(
        client = %from,
        namespace,
        service_account = name,
        pod = pod.as_deref().unwrap_or_default(),
        identity = %request.identity,
        serial = %signed.leaf.serial,
        not_after = %timestamp(signed.leaf.not_after),
        "certificate issued"
    );
}

#[tonic::async_trait]
impl Identity for Certifier {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Status> {
        let connection = request.extensions().get::<ClientConnection>().cloned();
        let connection = connection.as_ref();
        let from = connection.map_or(IpAddr::from([0, 0, 0, 0]), |connection| connection.address);
        let (began, request) = (Instant::now(), request.into_inner());
        let certifying = Box::pin(Certifier::certify(self, from, connection, &request));
        let certified = tokio::time::timeout(self.timeout, certifying).await;
        match certified.unwrap_or(Err(CertifyError::Timeout(self.timeout))) {
            Ok((signed, account)) => {
                audit(from, &request, &signed, &account);
                self.metrics.issued(began.elapsed());
                Ok(Response::new(response(&signed)))
            }
            Err(error) => {
                if let Some(left_out) = self.lines.admit(&Peer::at(from), error.label()) {
                    tracing::warn!(
                        client = %from,
                        reason = error.label(),
                        left_out,
                        "certificate request refused: {error}"
                    );
                }
                self.metrics.refused(error.label(), began.elapsed());
                Err(error.status())
            }
        }
    }
}

fn response(signed: &SignedCertificate) -> CertifyResponse {
    let since = signed.leaf.not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    CertifyResponse {
        leaf_certificate: signed.leaf.certificate.to_vec(),
        intermediate_certificates: signed.intermediates.iter().map(|one| one.to_vec()).collect(),
        valid_until: Some(prost_types::Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        }),
    }
}
