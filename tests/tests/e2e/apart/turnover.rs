//! Requests of a meshed client without a pause, whose credentials change meanwhile.

use super::super::clients::Visitor;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Incoming;
use policy_testkit::http1_client;
use policy_tls::identity::certificates;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Credentials of a client, and the roots that it believes.
#[derive(Clone)]
pub(super) struct Credentials(TlsConnector);

impl Credentials {
    /// Those of a visitor.
    pub(super) fn of(visitor: &Visitor) -> Self {
        let read = |name: &str| std::fs::read(visitor.folder().join(name)).unwrap();
        Self::believing(visitor.folder(), &read("ca.crt"))
    }

    /// The certificate in a folder, with other roots.
    pub(super) fn believing(folder: &Path, believed: &[u8]) -> Self {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let mut roots = RootCertStore::empty();
        for root in certificates(believed).unwrap() {
            roots.add(root).unwrap();
        }
        let chain = certificates(&read("tls.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&read("tls.key")).unwrap();
        let config = ClientConfig::builder_with_provider(policy_tls::identity::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        Self(TlsConnector::from(Arc::new(config)))
    }
}

/// A server of the mesh.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) name: ServerName<'static>,
    pub(super) to: SocketAddr,
}

impl Target {
    /// The status of a request on a connection of its own.
    pub(super) async fn ask(&self, credentials: &Credentials) -> Result<u16, String> {
        let (status, body) = self.request(credentials, "/page").await?;
        body.collect().await.map_err(|error| error.to_string())?;
        Ok(status)
    }

    /// A response that goes on for ever.
    pub(super) async fn open(&self, credentials: &Credentials) -> Incoming {
        let (status, body) = self.request(credentials, "/lines").await.unwrap();
        assert_eq!(status, 200);
        body
    }

    async fn request(&self, with: &Credentials, path: &str) -> Result<(u16, Incoming), String> {
        let stream = TcpStream::connect(self.to).await.map_err(|error| error.to_string())?;
        let stream = with.0.connect(self.name.clone(), stream).await;
        let mut sender = http1_client(stream.map_err(|error| error.to_string())?).await;
        let mut request = Request::get(path).header("host", "server");
        if path == "/lines" {
            request = request.header("echo-stream", "1000000").header("echo-interval-ms", "50");
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        Ok((answer.status().as_u16(), answer.into_body()))
    }
}

/// Requests, each on a connection of its own, until it is dropped.
pub(super) struct Turnover {
    with: Arc<Mutex<Credentials>>,
    answers: Arc<Mutex<Vec<Result<u16, String>>>>,
    _ends: DropGuard,
}

impl Turnover {
    pub(super) fn start(target: Target, credentials: Credentials) -> Self {
        let with = Arc::new(Mutex::new(credentials));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let ends = CancellationToken::new();
        let asks = {
            let (with, answers) = (Arc::clone(&with), Arc::clone(&answers));
            async move {
                loop {
                    let credentials = with.lock().unwrap().clone();
                    let answer = target.ask(&credentials).await;
                    answers.lock().unwrap().push(answer);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        tokio::spawn(ends.clone().run_until_cancelled_owned(asks));
        Self { with, answers, _ends: ends.drop_guard() }
    }

    /// The client has other credentials from now on.
    pub(super) fn goes_on_with(&self, credentials: Credentials) {
        *self.with.lock().unwrap() = credentials;
    }

    /// All answers so far.
    pub(super) fn answers(&self) -> Vec<Result<u16, String>> {
        self.answers.lock().unwrap().clone()
    }
}
