//! Connections, under TLS or not.

use crate::job::Job;
use anyhow::Context;
use policy_bench::load::Protocol;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection of either kind.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a connection can do.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + 'static> Stream for T {}

/// Opens a connection as the load asks for it.
pub(crate) async fn connect(job: &Job) -> anyhow::Result<Connection> {
    let number = job.opened();
    let load = &job.load;
    let target = load.target;
    let stream = if load.sources > 1 {
        let last = number % u64::from(load.sources) + 1;
        let source = Ipv4Addr::new(127, 0, 0, u8::try_from(last).unwrap_or(1));
        let socket = TcpSocket::new_v4()?;
        // Ports of connections that the other side closed are free again.
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::new(IpAddr::V4(source), 0))?;
        socket.connect(target).await
    } else {
        TcpStream::connect(target).await
    };
    let stream = stream.with_context(|| format!("connect to {target}"))?;
    stream.set_nodelay(true)?;
    let Some(tls) = &job.tls else { return Ok(Connection::Plain(stream)) };
    let name = ServerName::try_from(load.server_name.clone())?;
    let alpn = match load.protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 | Protocol::Grpc | Protocol::GrpcStream => vec![b"h2".to_vec()],
        Protocol::Echo | Protocol::Download | Protocol::Upload => Vec::new(),
    };
    let stream = tls.with_alpn(alpn).connect(name, stream).await.context("TLS handshake")?;
    Ok(Connection::Tls(Box::new(stream)))
}

/// TLS 1.3 alone, X25519 alone, AES-128-GCM alone, with the client certificate of the folder and
/// without resumption.
pub(crate) fn connector(folder: &Path) -> anyhow::Result<TlsConnector> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let provider = Arc::new(provider);
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(folder.join("client.crt"))?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(folder.join("client.key"))?;
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        .with_client_auth_cert(chain, key)?;
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What the server proves is not looked at: the generator's time is not what is measured, and it
/// knows whom it has started.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
