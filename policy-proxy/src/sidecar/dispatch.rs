//! Detects the protocol of a connection and dispatches it to HTTP or opaque forwarding.

use super::accepted::AcceptedConnection;
use super::client_hello::Scan;
use super::copy::HttpWatch;
use super::detect::{self, Detection};
use super::first_line::WireProtocol;
use super::io::ClientIo;
use super::server_first::ServerFirst;
use super::{http, opaque, tls};
use policy_core::{Denied, Protocol};
use policy_enforce::error::ErrorKind;
use policy_tls::peer::{Peer, PeerTls};
use std::time::{Duration, Instant};
use tokio::task::spawn_local;

/// Dispatches a connection whose client is known. `hint`: the protocol that a transport header
/// states; without it, HTTP is detected. The hint does not change what is permitted: an opaque port
/// is decided on as opaque. `server`: the application, which may speak before the client.
pub(super) async fn dispatch(
    accepted: AcceptedConnection,
    peer: Peer,
    mut io: ClientIo,
    hint: Option<WireProtocol>,
    mut server: Box<ServerFirst>,
) {
    let bound = match (accepted.protocol(), peer.tls()) {
        (Protocol::Opaque, _) => {
            spawn_local(opaque::forward(accepted, peer, io, HttpWatch::Off, None));
            return;
        }
        // A server of HTTP may read a request in what looks like a ClientHello.
        (_, PeerTls::Passthrough) => {
            let server = Some(server);
            spawn_local(opaque::forward(accepted, peer, io, HttpWatch::Observe, server));
            return;
        }
        (Protocol::Tls, PeerTls::Absent) => return accepted.refuse(&peer, Denied::TlsRequired),
        (Protocol::Tls, PeerTls::Terminated(_)) => return inner_tls(accepted, peer, io).await,
        (Protocol::Detect { timeout }, _) => timeout,
        (Protocol::Http1 | Protocol::Http2 | Protocol::Grpc, _) => {
            accepted.worker.shared.config.timeouts.detect
        }
    };
    let detected = match hint {
        Some(spoken) => Detection::Protocol(spoken),
        None => match detect_http(&accepted, &peer, &mut io, bound, &mut server).await {
            Ok(detected) => detected,
            Err(_) => return accepted.worker.tcp_error(ErrorKind::Io, accepted.client),
        },
    };
    serve_detected(accepted, peer, io, detected, server);
}

/// Serves a port whose Server declares TLS: it needs a ClientHello of the workload's own, inside a
/// mesh connection too.
async fn inner_tls(accepted: AcceptedConnection, peer: Peer, mut io: ClientIo) {
    let bound = accepted.worker.shared.config.timeouts.detect;
    let read = tokio::time::timeout(bound, tls::read_client_hello(&mut io)).await;
    match read {
        Ok(Ok((seen, Scan::ClientHello(_)))) => {
            io.unread(seen);
            spawn_local(opaque::forward(accepted, peer, io, HttpWatch::Off, None));
        }
        Ok(Ok((_, Scan::NotTls | Scan::Partial))) => accepted.refuse(&peer, Denied::TlsRequired),
        Ok(Err(_)) => accepted.worker.tcp_error(ErrorKind::Io, accepted.client),
        Err(_) => accepted.worker.tcp_error(ErrorKind::TlsDetectTimeout, accepted.client),
    }
}

/// Detects HTTP. By reference, because a future holds what it is given twice.
async fn detect_http(
    accepted: &AcceptedConnection,
    peer: &Peer,
    io: &mut ClientIo,
    bound: Duration,
    server: &mut ServerFirst,
) -> std::io::Result<Detection> {
    let begun = Instant::now();
    let first = accepted.would_carry_bytes(peer).then_some(server);
    let detected = detect::detect(io, bound, first).await?;
    accepted.record_detection(detected, begun.elapsed());
    Ok(detected)
}

/// Serves the detected protocol if the Server declares it.
pub(super) fn serve_detected(
    accepted: AcceptedConnection,
    peer: Peer,
    io: ClientIo,
    detected: Detection,
    server: Box<ServerFirst>,
) {
    let protocol = accepted.protocol();
    let spoken = match detected {
        Detection::Eof => return,
        Detection::Protocol(spoken) => spoken,
        // Where only HTTP is permitted, a silent client may take its time.
        Detection::Timeout if may_be_http1(protocol) && accepted.requires_http() => {
            WireProtocol::Http1
        }
        Detection::Timeout | Detection::ServerFirst => WireProtocol::Other,
    };
    let meshed = matches!(peer.tls(), PeerTls::Terminated(_));
    match (spoken, protocol) {
        (_, Protocol::Opaque | Protocol::Tls) => {
            spawn_local(opaque::forward(accepted, peer, io, HttpWatch::Off, None));
        }
        (WireProtocol::Other, Protocol::Detect { .. }) => {
            // A client that was silent, or whose first line is incomplete, may still turn out to
            // speak HTTP.
            let watch = match detected {
                Detection::Timeout | Detection::ServerFirst => HttpWatch::Hold,
                Detection::Protocol(_) | Detection::Eof => HttpWatch::Observe,
            };
            spawn_local(opaque::forward(accepted, peer, io, watch, Some(server)));
        }
        (WireProtocol::Http1, Protocol::Detect { .. } | Protocol::Http1) => {
            spawn_local(http::serve(accepted, peer, io, false));
        }
        (WireProtocol::Http2, Protocol::Detect { .. } | Protocol::Http2 | Protocol::Grpc) => {
            spawn_local(http::serve(accepted, peer, io, true));
        }
        // A meshed peer may carry HTTP/1 in HTTP/2 (docs/spec/proxy.md 1.7).
        (WireProtocol::Http2, Protocol::Http1) if meshed => {
            spawn_local(http::serve(accepted, peer, io, true));
        }
        (WireProtocol::Http1 | WireProtocol::Other, Protocol::Http2 | Protocol::Grpc)
        | (WireProtocol::Http2 | WireProtocol::Other, Protocol::Http1)
        // Behind a PROXY header the application would read a request that was not decided on.
        | (WireProtocol::Proxy, _) => {
            accepted.refuse(&peer, Denied::ProtocolMismatch);
        }
    }
}

fn may_be_http1(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Http1 | Protocol::Detect { .. })
}
