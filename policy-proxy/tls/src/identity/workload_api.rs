//! An identity from the node's agent, by SPIFFE's Workload API over a Unix socket.
//!
//! One stream delivers identity, key and roots, now and at every change; each message is complete.
//! An identity that the agent no longer sends is revoked (Workload API section 5.2.1): it is
//! cleared and the proxy is not ready. A stream that only ends is opened again, with backoff, and
//! the current identity stays until it expires.

use super::credentials::{Credentials, TlsIdentity};
use super::error::AttemptError;
use super::name::{identity_of, is_spiffe_id};
use super::publish::Publisher;
use super::state::FailureKind;
use crate::control::{Backoff, chain, random, within};
use crate::x509::concatenated;
use hyper_util::rt::TokioIo;
use policy_core::Identity;
use policy_proto::spiffe::spiffe_workload_api_client::SpiffeWorkloadApiClient;
use policy_proto::spiffe::{X509svid, X509svidRequest, X509svidResponse};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

/// Configuration of an identity from the node's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiffeConfig {
    /// The agent's socket.
    pub agent: AgentAddress,
    /// The SPIFFE ID to use; `None` for the agent's default, which it sends first.
    pub id: Option<Arc<str>>,
    /// The DNS name that clients send as SNI.
    pub server_name: Arc<str>,
    /// Timeout of connecting and of the first message.
    pub timeout: Duration,
    /// First and longest delay after a failure.
    pub backoff: (Duration, Duration),
    /// Interval of the checks of the clock.
    pub interval: Duration,
}

/// Address of the agent: the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAddress(PathBuf);

impl SpiffeConfig {
    /// Creates the default configuration: 10 s to connect, delays of 100 ms to 1 s as in Linkerd.
    pub fn new(agent: AgentAddress, id: Option<&str>, server_name: &str) -> Self {
        Self {
            agent,
            id: id.map(Arc::from),
            server_name: server_name.into(),
            timeout: Duration::from_secs(10),
            backoff: (Duration::from_millis(100), Duration::from_secs(1)),
            interval: Duration::from_secs(10),
        }
    }
}

impl AgentAddress {
    /// Parses a path, `unix:/path` or `unix:///path` (SPIFFE Workload Endpoint section 4).
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected =
            "expected an absolute path of a Unix socket, with unix: before it or without";
        let path = text.strip_prefix("unix:").unwrap_or(text);
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.starts_with('/') { Ok(Self(path.into())) } else { Err(expected) }
    }
}

/// Formats the socket's address.
impl std::fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unix:{}", self.0.display())
    }
}

/// The client of the agent.
#[derive(Debug)]
pub(super) struct WorkloadApi {
    config: SpiffeConfig,
}

/// End of a stream.
struct StreamEnd {
    error: AttemptError,
    /// True if the agent revoked the identity.
    revoked: bool,
    /// True if an early retry is useless.
    permanent: bool,
}

/// Maximum message size in bytes: roots of other trust domains may be many.
const MAX_MESSAGE: usize = 4 << 20;
const KEEP_ALIVE: Duration = Duration::from_secs(10);

impl WorkloadApi {
    pub(super) fn new(config: SpiffeConfig) -> Self {
        Self { config }
    }

    /// Keeps the identity current until it is dropped.
    pub(super) async fn run(self, publisher: &Publisher) {
        let mut backoff = Backoff::new(self.config.backoff.0, self.config.backoff.1);
        loop {
            let begun = Instant::now();
            let end = match self.open().await {
                Ok((first, stream)) => self.follow(first, stream, publisher).await,
                Err(end) => end,
            };
            let message = format!("{}: {}", self.config.agent, end.error.message);
            if end.revoked {
                publisher.revoke(end.error.kind, &message);
            } else {
                publisher.fail(end.error.kind, &message);
            }
            backoff.settle(begun.elapsed());
            let (soon, late) = (backoff.delay(random()), backoff.slow(random()));
            tokio::time::sleep(if end.permanent { late } else { soon }).await;
        }
    }

    /// Opens a stream and awaits its first message, which the agent has to send at once.
    async fn open(&self) -> Result<(X509svidResponse, Streaming<X509svidResponse>), StreamEnd> {
        let timeout = self.config.timeout;
        let open = async {
            let mut client = SpiffeWorkloadApiClient::new(self.connect().await?)
                .max_decoding_message_size(MAX_MESSAGE);
            let mut request = Request::new(X509svidRequest {});
            // Required by agents, so that no browser can be made to send requests (Workload
            // Endpoint section 5.1).
            let header = MetadataValue::from_static("true");
            request.metadata_mut().insert("workload.spiffe.io", header);
            let mut stream = client
                .fetch_x509svid(request)
                .await
                .map_err(|status| refused(&status))?
                .into_inner();
            let first = stream.message().await.map_err(|status| refused(&status))?;
            first.map(|first| (first, stream)).ok_or_else(closed)
        };
        let late = |_| {
            let message = format!("no message within {timeout:?}");
            StreamEnd::lost(AttemptError::new(FailureKind::Refused, message))
        };
        tokio::time::timeout(timeout, open).await.map_err(late)?
    }

    async fn connect(&self) -> Result<Channel, StreamEnd> {
        let lost = |error: tonic::transport::Error| {
            StreamEnd::lost(AttemptError::new(FailureKind::Unreachable, chain(&error)))
        };
        // The authority is not used, but a URI needs one.
        let endpoint = Endpoint::from_static("http://localhost")
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let (path, bound) = (self.config.agent.0.clone(), self.config.timeout);
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { within(bound, UnixStream::connect(path)).await.map(TokioIo::new) }
        });
        endpoint.connect_with_connector(connector).await.map_err(lost)
    }

    /// Applies the agent's messages until the stream ends.
    async fn follow(
        &self,
        first: X509svidResponse,
        mut stream: Streaming<X509svidResponse>,
        publisher: &Publisher,
    ) -> StreamEnd {
        let mut message = first;
        loop {
            if let Err(end) = self.take(message, publisher) {
                return end;
            }
            message = loop {
                let next = tokio::time::timeout(self.config.interval, stream.message()).await;
                match next {
                    Ok(Ok(Some(message))) => break message,
                    Ok(Ok(None)) => return closed(),
                    Ok(Err(status)) => return refused(&status),
                    Err(_) if publisher.check() => {
                        let message =
                            "the certificate is no longer valid, and the agent sent no new one";
                        return StreamEnd::lost(AttemptError::new(
                            FailureKind::Certificate,
                            message,
                        ));
                    }
                    Err(_) => {}
                }
            };
        }
    }

    /// Applies a message. An unusable identity changes nothing; a missing one revokes the current
    /// one.
    fn take(&self, message: X509svidResponse, publisher: &Publisher) -> Result<(), StreamEnd> {
        let offered: Vec<_> =
            message.svids.iter().take(8).map(|svid| svid.spiffe_id.clone()).collect();
        let svid = message.svids.into_iter().find(|svid| match &self.config.id {
            Some(id) => **id == *svid.spiffe_id,
            None => true,
        });
        let Some(svid) = svid else {
            let wanted = self.config.id.as_deref().unwrap_or("any identity");
            let message = format!("no `{wanted}` among [{}]", offered.join(", "));
            publisher.revoke(FailureKind::Answer, &format!("{}: {message}", self.config.agent));
            return Ok(());
        };
        let id = svid.spiffe_id.clone();
        match self.accept(svid) {
            Ok(identity) => publisher.renew(identity),
            Err(message) => {
                let message = format!("{}: `{id}`: {message}", self.config.agent);
                publisher.fail(FailureKind::Answer, &message);
            }
        }
        Ok(())
    }

    fn accept(&self, svid: X509svid) -> Result<TlsIdentity, String> {
        let X509svid { spiffe_id, x509_svid, x509_svid_key, bundle, hint: _ } = svid;
        let id = spiffe_id.as_str();
        let domain = id.strip_prefix("spiffe://").filter(|_| is_spiffe_id(id));
        let domain = domain.and_then(|rest| rest.split('/').next());
        let domain = domain.ok_or("spiffe_id: not a SPIFFE ID")?;
        let expected = "expected certificates in DER, one behind the other";
        let chain = concatenated(&x509_svid).ok_or(format!("x509_svid: {expected}"))?;
        let roots = concatenated(&bundle).ok_or(format!("bundle: {expected}"))?;
        let names = chain.first().and_then(identity_of);
        if !matches!(&names, Some(Identity::Spiffe(name)) if **name == *id) {
            return Err("x509_svid: the certificate is not for this identity".to_owned());
        }
        if x509_svid_key.is_empty() {
            return Err("x509_svid_key: missing".to_owned());
        }
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(x509_svid_key));
        let server_name = Arc::clone(&self.config.server_name);
        let credentials = Credentials { server_name, roots, chain, key };
        let identity = TlsIdentity::with_trust_domain(credentials, Some(domain.into()))
            .map_err(|error| error.to_string())?;
        identity.verify(SystemTime::now())?;
        Ok(identity)
    }
}

impl StreamEnd {
    /// Creates an end without a revocation.
    fn lost(error: AttemptError) -> Self {
        Self { error, revoked: false, permanent: false }
    }
}

fn closed() -> StreamEnd {
    StreamEnd::lost(AttemptError::new(FailureKind::Refused, "the agent closed the stream"))
}

fn refused(status: &Status) -> StreamEnd {
    let message = format!("{:?}: {}", status.code(), status.message());
    StreamEnd {
        error: AttemptError::new(FailureKind::Refused, message),
        revoked: status.code() == Code::PermissionDenied,
        // The same request would get the same response (Workload Endpoint section 6).
        permanent: status.code() == Code::InvalidArgument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_address_is_an_absolute_path() {
        for text in ["/run/agent.sock", "unix:/run/agent.sock", "unix:///run/agent.sock"] {
            assert_eq!(AgentAddress::parse(text).unwrap().to_string(), "unix:/run/agent.sock");
        }
        for text in ["", "agent.sock", "unix:agent.sock", "tcp://127.0.0.1:80", "unix://host/path"]
        {
            assert!(AgentAddress::parse(text).is_err(), "{text}");
        }
    }
}
