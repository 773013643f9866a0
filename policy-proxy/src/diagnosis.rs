//! The system's knowledge of a connection: its state, and how much its peer has not acknowledged.
//!
//! SIOCOUTQ tells the latter, but is called through `ioctl`, for which no library has a safe function.
//! Socket diagnosis (sock_diag(7)) tells the same number, and needs no right either.

use policy_core::fold_mapped;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;

/// Asks the system about connections.
#[derive(Debug)]
pub(crate) struct Diagnosis(Socket);

/// A question about one connection.
#[derive(Debug)]
pub(crate) struct ConnectionQuery(Vec<u8>);

/// A connection as the system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its state, by the number of linux/tcp_states.h.
    pub(crate) state: u8,
    /// Bytes that were written and are not acknowledged.
    pub(crate) unacknowledged: u32,
}

impl Known {
    /// True if only the remains of a connection that both sides have closed are left. So it is if there
    /// is none but a listener at its address, which the system finds then.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, TCP_TIME_WAIT | TCP_LISTEN)
    }
}

impl Diagnosis {
    /// Opens the way to the system.
    pub(crate) fn open() -> io::Result<Self> {
        let protocol = Some(Protocol::from(NETLINK_SOCK_DIAG));
        let socket = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, protocol)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Looks up a connection; none if there is no such one.
    pub(crate) fn ask(&mut self, question: &ConnectionQuery) -> io::Result<Option<Known>> {
        self.0.send(&question.0)?;
        let mut answer = [0; MAX_ANSWER];
        // The system answers before `send` returns.
        let length = self.0.read(&mut answer)?;
        parse(answer.get(..length).unwrap_or_default())
    }
}

impl ConnectionQuery {
    /// The question about `stream`.
    pub(crate) fn of(stream: &TcpStream) -> io::Result<Self> {
        Ok(Self::between(stream.local_addr()?, stream.peer_addr()?))
    }

    /// The question about the connection between two addresses.
    pub(crate) fn between(local: SocketAddr, peer: SocketAddr) -> Self {
        let interface = match peer {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(peer) => peer.scope_id(),
        };
        let fold = |address: SocketAddr| SocketAddr::new(fold_mapped(address.ip()), address.port());
        Self(request(fold(local), fold(peer), interface))
    }
}

/// Encodes `nlmsghdr` and `inet_diag_req_v2` of linux/inet_diag.h.
fn request(local: SocketAddr, peer: SocketAddr, interface: u32) -> Vec<u8> {
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut out = Vec::with_capacity(usize::from(REQUEST_LENGTH));
    out.extend(u32::from(REQUEST_LENGTH).to_ne_bytes());
    out.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender.
    out.extend([0; 8]);
    out.extend([family, IPPROTO_TCP, 0, 0]);
    // Every state.
    out.extend(u32::MAX.to_ne_bytes());
    out.extend(local.port().to_be_bytes());
    out.extend(peer.port().to_be_bytes());
    out.extend(octets(local.ip()));
    out.extend(octets(peer.ip()));
    out.extend(interface.to_ne_bytes());
    // No cookie.
    out.extend([u8::MAX; 8]);
    out
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// Reads an `inet_diag_msg`, or an error.
fn parse(answer: &[u8]) -> io::Result<Option<Known>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).ok_or_else(malformed)?;
    let word = |from: usize| {
        let bytes = answer.get(from..)?.first_chunk::<4>()?;
        Some(*bytes)
    };
    match u16::from_ne_bytes(kind) {
        SOCK_DIAG_BY_FAMILY => {
            let state = *answer.get(STATE).ok_or_else(malformed)?;
            let queue = word(WRITE_QUEUE).ok_or_else(malformed)?;
            Ok(Some(Known { state, unacknowledged: u32::from_ne_bytes(queue) }))
        }
        NLMSG_ERROR => {
            let code = word(HEADER).map(i32::from_ne_bytes).ok_or_else(malformed)?;
            let error = io::Error::from_raw_os_error(code.saturating_neg());
            if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
        }
        _ => Err(malformed()),
    }
}

const AF_NETLINK: i32 = 16;
const NETLINK_SOCK_DIAG: i32 = 4;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_TIME_WAIT: u8 = 6;
const TCP_LISTEN: u8 = 10;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
/// Bytes of `nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of both parts of a request.
const REQUEST_LENGTH: u16 = 72;
/// Offset of `idiag_state` in an answer.
const STATE: usize = 17;
/// Offset of `idiag_wqueue` in an answer.
const WRITE_QUEUE: usize = 76;
/// Larger than an answer without extensions.
const MAX_ANSWER: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn what_a_peer_does_not_take_is_counted_until_it_takes_it() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let listener = TcpListener::bind(address).await.unwrap();
            let mut to = listener.local_addr().unwrap();
            if to.ip().is_unspecified() {
                // An IPv4 client of a listener for both families.
                to.set_ip("127.0.0.1".parse().unwrap());
            }
            let client = TcpStream::connect(to).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            let mut diagnosis = Diagnosis::open().unwrap();
            let question = ConnectionQuery::of(&client).unwrap();
            let mut left = || diagnosis.ask(&question).unwrap().unwrap().unacknowledged;
            assert_eq!(left(), 0, "{address}");
            let mut sent = 0;
            while let Ok(written) = client.try_write(&[0; 65_536]) {
                sent += written;
            }
            assert!(left() > 65_536, "{address}");
            server.read_exact(&mut vec![0; sent]).await.unwrap();
            for _ in 0..100 {
                if left() == 0 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            assert_eq!(left(), 0, "{address}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_over_once_both_sides_have_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut diagnosis = Diagnosis::open().unwrap();
        let (question, local) =
            (ConnectionQuery::of(&client).unwrap(), client.local_addr().unwrap());
        let mut is_over = || diagnosis.ask(&question).unwrap().map(|known| known.is_over());
        assert_eq!(is_over(), Some(false));
        client.shutdown().await.unwrap();
        assert_eq!(is_over(), Some(false), "the server has not closed");
        drop(client);
        assert_eq!(is_over(), Some(false), "the server has still not closed");
        drop(server);
        assert_eq!(is_over(), Some(true));
        // The server's side is gone.
        let server = ConnectionQuery::between(listener.local_addr().unwrap(), local);
        assert_eq!(diagnosis.ask(&server).unwrap().map(|known| known.is_over()), Some(true));
    }

    #[test]
    fn an_answer_of_another_kind_is_an_error() {
        for answer in [&b""[..], &[0; 4], &[0; 80], &[20, 0, 0, 0, 20, 0, 0, 0]] {
            assert!(parse(answer).is_err(), "{answer:?}");
        }
    }
}
