//! The admin server: `/live`, `/ready` and `/metrics` over HTTP/1 (docs/spec/controller.md 6.3), and
//! `/debug/policy` for loopback.

mod debug;

use crate::self_policy::SelfPolicy;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use policy_core::Denied;
use policy_engine::handles::Policies;
use policy_server::{
    Accepted, CapacityBounds, ConnectionRefusal, ConnectionService, CurrentTls, HandshakeTurns,
    Listener, ListenerSettings, RevocationOrder, SharedCapacity, TlsHandle, Transport,
    UnreadCopies,
};
pub use policy_server::{Readiness, Requirement};
use policy_tls::peer::{Peer, PeerTls};
use prometheus_client::registry::Registry;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Connections, half of them for the node and the pod itself, and those of one address: scrapes and
/// probes are few. Who holds the most makes room for others.
const CONNECTIONS: CapacityBounds =
    CapacityBounds { total: 512, per_client: 16, first: RevocationOrder::LeastRecentlyUsed };

/// Longest duration of a connection, varied by a fifth.
const CONNECTION: Duration = Duration::from_secs(60);

/// Timeouts of a client's first byte, then of its handshake.
const FIRST_BYTE: Duration = Duration::from_secs(10);
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Turns of handshakes.
const TURNS: HandshakeTurns = HandshakeTurns { at_once: 2, kept: Duration::ZERO, wait: HANDSHAKE };

/// The admin server's state.
#[derive(Clone, Debug)]
pub struct Admin {
    readiness: Readiness,
    registry: Arc<Mutex<Registry>>,
    /// The policies that `/debug/policy` shows.
    policies: Arc<OnceLock<Policies>>,
    /// Enforces the controller's own policy, once it is known; absent: every client may request.
    guard: Option<Arc<OnceLock<AdminPolicy>>>,
    /// Bounds a whole connection, so that clients that do not read cannot keep the probes out.
    bound: Duration,
    room: SharedCapacity,
    /// Metrics that clients have not read.
    copies: Arc<UnreadCopies>,
}

/// The policy of the admin port, and the credentials by which the port proves its identity.
#[derive(Debug)]
struct AdminPolicy {
    guard: SelfPolicy,
    tls: Option<TlsHandle>,
}

impl Admin {
    /// An admin server over `readiness` and the metrics of `registry`; more may be added by
    /// [`Admin::register`].
    pub fn new(readiness: Readiness, registry: Registry) -> Self {
        let registry = Arc::new(Mutex::new(registry));
        let (policies, room) = (Arc::default(), SharedCapacity::new(CONNECTIONS));
        let copies = Arc::default();
        Self { readiness, registry, policies, guard: None, bound: CONNECTION, room, copies }
    }

    /// Rejects clients outside of loopback, except for probes, until a policy is set
    /// ([`Admin::guard`]).
    #[must_use]
    pub fn with_pending_policy(self) -> Self {
        Self { guard: Some(Arc::default()), ..self }
    }

    /// Enforces `guard` on every request from now on. Callers may prove an identity over TLS, where
    /// there are credentials to answer them with.
    pub fn guard(&self, guard: SelfPolicy, tls: Option<TlsHandle>) {
        if let Some(slot) = &self.guard {
            // The first stays: a process has one guard.
            _ = slot.set(AdminPolicy { guard, tls });
        }
    }

    /// Returns the readiness that `/ready` reports.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Shows policies at `/debug/policy` from now on.
    pub fn show(&self, policies: Policies) {
        // The first stays: a process has one index.
        _ = self.policies.set(policies);
    }

    /// Adds metrics.
    pub fn register(&self, families: impl FnOnce(&mut Registry)) {
        families(&mut self.registry.lock());
    }

    /// Serves on `listener` until `shutdown` is cancelled.
    pub async fn run(self, listener: TcpListener, shutdown: CancellationToken) {
        let (near, tls) = (self.clone(), self.clone());
        let room = self.room.clone();
        let settings = ListenerSettings {
            connections: room.with_known(move |peer| near.is_near(peer.address)),
            proved: None,
            first_byte: FIRST_BYTE,
            handshake: HANDSHAKE,
            turns: TURNS,
            first_use: Some(FIRST_BYTE),
            age: Some(self.bound),
        };
        let current = move || tls.admin_policy().and_then(|policy| policy.tls.clone());
        let transport = Transport::Either(CurrentTls::new(current));
        Listener::new(settings, self, shutdown).run(vec![(listener, transport)]).await;
    }

    /// True if a client is the node or the pod itself, as far as that is known.
    fn is_near(&self, client: IpAddr) -> bool {
        let client = policy_core::fold_mapped(client);
        let node =
            self.admin_policy().is_some_and(|admin_policy| admin_policy.guard.is_node(client));
        client.is_loopback() || node
    }

    async fn respond(
        &self,
        peer: &Peer,
        request: &Request<Incoming>,
    ) -> Response<http_body_util::Full<Bytes>> {
        if let Some(refusal) = self.refusal(peer, request) {
            return refusal;
        }
        let debug = self.debug(request, peer.ip()).await;
        debug.unwrap_or_else(|| self.answer(request.method(), request.uri()))
    }

    fn admin_policy(&self) -> Option<&AdminPolicy> {
        self.guard.as_ref().and_then(|slot| slot.get())
    }

    /// Returns the answer to a request that is not permitted.
    fn refusal<B>(
        &self,
        peer: &Peer,
        request: &Request<B>,
    ) -> Option<Response<http_body_util::Full<Bytes>>> {
        if let Some(AdminPolicy { guard, .. }) = self.admin_policy() {
            let refusal = guard.admin(peer, request).err()?;
            return Some(plain(refusal.status, format!("{}\n", refusal.text)));
        }
        let probe = matches!(request.uri().path(), "/live" | "/ready");
        let near = policy_core::fold_mapped(peer.ip()).is_loopback();
        if self.guard.is_none() || probe || near {
            return None;
        }
        let reason = Denied::PolicyPending.as_str();
        Some(plain(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")))
    }

    /// Returns the answer to a request for `/debug/policy`; `None` for other paths. It shows
    /// permissions, so that only clients on the machine may request it: a port-forward is one.
    async fn debug(
        &self,
        request: &Request<Incoming>,
        remote: IpAddr,
    ) -> Option<Response<http_body_util::Full<Bytes>>> {
        if request.uri().path() != "/debug/policy" {
            return None;
        }
        let policies = self.policies.get()?;
        if !policy_core::fold_mapped(remote).is_loopback() {
            let why = "/debug is answered on loopback only: use a port-forward\n";
            return Some(plain(StatusCode::FORBIDDEN, why));
        }
        if request.method() != Method::GET {
            return Some(plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"));
        }
        let (status, body) = debug::policy(policies, request.uri().query()).await;
        Some(plain(status, body))
    }

    fn answer(&self, method: &Method, uri: &Uri) -> Response<http_body_util::Full<Bytes>> {
        let verbose =
            uri.query().is_some_and(|query| query.split('&').any(|part| part == "verbose"));
        let respond: fn(&Self) -> (StatusCode, &'static str, Bytes) = match uri.path() {
            "/live" => |_| (StatusCode::OK, TEXT, "alive\n".into()),
            "/ready" if verbose => Self::ready_with_remarks,
            "/ready" => Self::ready,
            "/metrics" => Self::metrics,
            _ => return plain(StatusCode::NOT_FOUND, "not found\n"),
        };
        if method != Method::GET && method != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
            let allow = header::HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allow);
            return response;
        }
        let (status, kind, body) = respond(self);
        let mut response = plain(status, body);
        let kind = header::HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    fn ready(&self) -> (StatusCode, &'static str, Bytes) {
        let (status, kind, text) = self.readiness_text();
        (status, kind, text.into())
    }

    fn readiness_text(&self) -> (StatusCode, &'static str, String) {
        let missing = self.readiness.missing();
        let mut without = String::new();
        for function in self.readiness.without() {
            without.push_str(&format!("without: {function}\n"));
        }
        if missing.is_empty() {
            return (StatusCode::OK, TEXT, format!("ready\n{without}"));
        }
        // 500 and the first words are Linkerd's; what is missing is ours.
        let text = format!("not ready: {}\n{without}", missing.join(", "));
        (StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
    }

    /// Returns the readiness with remarks, which are no reason to be unready.
    fn ready_with_remarks(&self) -> (StatusCode, &'static str, Bytes) {
        let (status, kind, mut text) = self.readiness_text();
        for remark in self.readiness.remarks() {
            text.push_str(&format!("remark: {remark}\n"));
        }
        (status, kind, text.into())
    }

    fn metrics(&self) -> (StatusCode, &'static str, Bytes) {
        let encode = || {
            let mut text = String::new();
            let encoded =
                prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
            encoded.map(|()| text)
        };
        match self.copies.text(encode) {
            Ok(text) => (StatusCode::OK, OPEN_METRICS, text),
            Err(error) => {
                let text = format!("cannot encode metrics: {error}\n");
                (StatusCode::INTERNAL_SERVER_ERROR, TEXT, text.into())
            }
        }
    }
}

impl ConnectionService for Admin {
    type Open = ();

    fn opened(&self) {}

    fn refused(&self, _: SocketAddr, _: &ConnectionRefusal) {}

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let Accepted { stream, remote, identity, tls, share, end } = accepted;
        let tls = tls.map_or(PeerTls::Absent, |_| PeerTls::Terminated(identity));
        let peer = Arc::new(Peer::new(remote, tls));
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (admin, peer, share) = (self.clone(), peer.clone(), share.clone());
            async move {
                let _in_use = share.in_use();
                Ok::<_, Infallible>(admin.respond(&peer, &request).await)
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(30))
            // A body that is not read stays the one that clients share.
            .writev(true)
            .max_buf_size(16 * 1024);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        // Over the bound or not, the connection ends there.
        let served = end.drive(connection.as_mut(), Duration::ZERO, |_| {});
        if let Some(Err(error)) = served.await {
            tracing::debug!(%remote, %error, "admin connection ended");
        }
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<http_body_util::Full<Bytes>> {
    let mut response = Response::new(http_body_util::Full::new(body.into()));
    *response.status_mut() = status;
    response
}

/// Binds a listener. The error names the address and its purpose.
///
/// # Errors
/// The operating system's, with `what` and `address` in its text.
pub async fn bind(what: &str, address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address} for {what}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_policy;
    use http_body_util::BodyExt;
    use policy_server::Peer as Client;
    use tokio::net::TcpStream;

    const MOST: u64 = CONNECTIONS.total / 2;

    async fn ask(admin: &Admin, method: Method, path: &str) -> (u16, String) {
        let response = admin.answer(&method, &path.parse().unwrap());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ready_names_what_is_missing() {
        let readiness = Readiness::default();
        let listed = readiness.require("manifests are not read yet");
        let listener = readiness.require("the gRPC port is not open");
        let admin = Admin::new(readiness.clone(), Registry::default());
        let (status, body) = ask(&admin, Method::GET, "/ready").await;
        assert_eq!(status, 500);
        assert_eq!(body, "not ready: manifests are not read yet, the gRPC port is not open\n");
        listed.met();
        listener.met();
        assert_eq!(ask(&admin, Method::GET, "/ready").await, (200, "ready\n".to_owned()));
        listed.lost();
        listed.lost();
        assert_eq!(readiness.missing().len(), 1);
    }

    #[tokio::test]
    async fn ready_names_complaints_until_they_are_taken_back_and_always_what_is_done_without() {
        let readiness = Readiness::default();
        let admin = Admin::new(readiness.clone(), Registry::default());
        readiness.do_without(["status is not written".to_owned()]);
        readiness.report("watches", vec!["pods are late".to_owned(), "nodes are late".to_owned()]);
        let (status, body) = ask(&admin, Method::GET, "/ready").await;
        let late = "not ready: pods are late, nodes are late\nwithout: status is not written\n";
        assert_eq!((status, &*body), (500, late));
        readiness.report("watches", vec![]);
        readiness.remark("watches", vec!["pods are late".to_owned()]);
        let (status, body) = ask(&admin, Method::GET, "/ready?verbose").await;
        let remarked = "ready\nwithout: status is not written\nremark: pods are late\n";
        assert_eq!((status, &*body), (200, remarked));
        let (status, body) = ask(&admin, Method::GET, "/ready").await;
        assert_eq!((status, &*body), (200, "ready\nwithout: status is not written\n"));
    }

    #[tokio::test]
    async fn only_get_and_head_of_three_paths_are_answered() {
        let admin = Admin::new(Readiness::default(), Registry::default());
        assert_eq!(ask(&admin, Method::GET, "/live").await, (200, "alive\n".to_owned()));
        assert_eq!(ask(&admin, Method::HEAD, "/live").await.0, 200);
        assert_eq!(ask(&admin, Method::POST, "/live").await.0, 405);
        assert_eq!(ask(&admin, Method::POST, "/other").await.0, 404);
        assert_eq!(ask(&admin, Method::GET, "/metrics").await, (200, "# EOF\n".to_owned()));
    }

    async fn from_loopback(ip: [u8; 4], to: SocketAddr) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((ip, 0).into()).unwrap();
        socket.connect(to).await.unwrap()
    }

    #[tokio::test]
    async fn whoever_holds_all_it_may_keeps_nobody_else_out() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = bind("metrics", SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let admin = Admin::new(Readiness::default(), Registry::default());
        tokio::spawn(admin.run(listener, CancellationToken::new()));
        let mut silent = Vec::new();
        for _ in 0..MOST {
            silent.push(from_loopback([127, 0, 0, 2], address).await);
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /live HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let answered = probe.read_to_string(&mut answer);
        // Well before the silent ones have had their time.
        tokio::time::timeout(Duration::from_secs(5), answered).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }

    #[tokio::test]
    async fn clients_that_read_nothing_do_not_keep_probes_out() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = bind("metrics", SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut admin = Admin::new(Readiness::default(), Registry::default());
        admin.bound = Duration::from_millis(300);
        tokio::spawn(admin.run(listener, CancellationToken::new()));
        for number in 0..MOST {
            let from = u8::try_from(number % 16).unwrap();
            let mut stream = from_loopback([127, 0, 1, from], address).await;
            // More answers than any buffer holds; the first refused write ends it.
            let asking = async move {
                while stream.write_all(b"GET /live HTTP/1.1\r\nhost: a\r\n\r\n").await.is_ok() {}
            };
            tokio::spawn(asking);
        }
        // Refused as long as they have all the room, as is a probe that is tried again.
        let answered = async {
            loop {
                let mut probe = TcpStream::connect(address).await.unwrap();
                _ = probe.write_all(b"GET /live HTTP/1.0\r\n\r\n").await;
                let mut answer = String::new();
                _ = probe.read_to_string(&mut answer).await;
                if answer.starts_with("HTTP/1.0 200") {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), answered).await.unwrap();
    }

    #[tokio::test]
    async fn strangers_who_hold_all_their_room_do_not_keep_the_nodes_probes_waiting() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = bind("metrics", SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let admin = Admin::new(Readiness::default(), Registry::default());
        let strangers = (0..CONNECTIONS.total).map(|n| {
            let [.., high, low] = n.to_be_bytes();
            admin.room.take(&Client::at([10, 0, high, low].into()), 1).unwrap()
        });
        let held: Vec<_> = strangers.collect();
        let _in_use: Vec<_> = held.iter().map(|share| share.in_use()).collect();
        assert_eq!(admin.room.held(), CONNECTIONS.total);
        tokio::spawn(admin.clone().run(listener, CancellationToken::new()));
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /live HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let answered = probe.read_to_string(&mut answer);
        tokio::time::timeout(Duration::from_secs(60), answered).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        assert!(admin.room.held() >= MOST, "the others keep theirs");
    }

    #[test]
    fn the_node_is_near_as_soon_as_it_is_known_and_nobody_else() {
        let near = |admin: &Admin, client: &str| admin.is_near(client.parse().unwrap());
        let admin = Admin::new(Readiness::default(), Registry::default()).with_pending_policy();
        assert!(near(&admin, "127.0.0.1") && near(&admin, "::1") && !near(&admin, "10.0.0.5"));
        admin.guard(self_policy::testing::on_node("10.0.0.5/32"), None);
        for (client, expected) in [
            ("10.0.0.5", true),
            ("::ffff:10.0.0.5", true),
            ("127.0.0.1", true),
            ("10.0.0.6", false),
        ] {
            assert_eq!(near(&admin, client), expected, "{client}");
        }
    }

    #[tokio::test]
    async fn a_port_taken_is_named_in_the_error() {
        let first = bind("metrics", SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = first.local_addr().unwrap();
        let error = bind("metrics", address).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen on {address} for metrics:")), "{error}");
    }
}
