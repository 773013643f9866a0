//! Source ports of connections to the application and to endpoints.
//!
//! Each connection that is accepted has one of its own to the other side, which the sidecar often closes
//! first: its source port then stays in TIME_WAIT for a minute. The system picks no such port, unless
//! the connection is one by loopback and a second old, so that the default range of 28,000 ports bears
//! 470 new connections a second to one address and port. A port that is named is taken in
//! TIME_WAIT too, where TCP timestamps tell the new connection's segments from the old one's, which is
//! the default. Once the system has none left, or takes long to find one, ports are therefore named here, in turn, each only if no
//! connection is known on it but one that both sides have closed: any other would be reset.
//!
//! The system picks a port that was named for nobody else until it is free again. Only a part of the
//! range is therefore named, so that the pod's other connections find ports.

use crate::diagnosis::{ConnectionQuery, Diagnosis};
use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::io;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpSocket, TcpStream};

/// The ports that may be named, while the system finds none. Of the process, as the ports are.
static NAMED: Mutex<Option<NamedPorts>> = Mutex::new(None);

/// Searches of the system in a row that took long.
static LONG_SEARCHES: AtomicU32 = AtomicU32::new(0);

/// The ports that are named in turn: a part of those that the system picks from.
#[derive(Debug)]
struct NamedPorts {
    range: RangeInclusive<u16>,
    reserved: Vec<RangeInclusive<u16>>,
    next: u16,
    since: Instant,
}

/// Connects. [`io::ErrorKind::AddrNotAvailable`]: no source port is free.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let is_none = |error: &io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
    // Boxed, here and below, for the sake of the future around it.
    if let Some(port) = next_port() {
        match Box::pin(connect_from(address, port)).await {
            // All of the part that is named are in use. The system may find one of the others, slowly.
            Err(error) if is_none(&error) => return Box::pin(connect_by_system(address)).await,
            connected => return connected,
        }
    }
    match Box::pin(connect_by_system(address)).await {
        Err(error) if is_none(&error) => match first_port() {
            Some(port) => Box::pin(connect_from(address, port)).await,
            None => Err(error),
        },
        connected => connected,
    }
}

/// Connects from a port that the system finds. It looks at every second port of its range first, one by
/// one, which takes milliseconds of the worker once all of these are in use. Ports are named then.
async fn connect_by_system(address: SocketAddr) -> io::Result<TcpStream> {
    let mut connecting = pin!(socket(address)?.connect(address));
    // The system is asked at the first poll.
    let mut asked = Some(Instant::now());
    poll_fn(|cx| {
        let polled = connecting.as_mut().poll(cx);
        if let Some(asked) = asked.take() {
            note_search(asked.elapsed());
        }
        polled
    })
    .await
}

/// Notes how long the system has looked for a port. Once may be the scheduler's doing.
fn note_search(took: Duration) {
    if took < LONG_SEARCH {
        if LONG_SEARCHES.load(Ordering::Relaxed) > 0 {
            LONG_SEARCHES.store(0, Ordering::Relaxed);
        }
    } else if LONG_SEARCHES.fetch_add(1, Ordering::Relaxed) >= MOST_LONG_SEARCHES {
        LONG_SEARCHES.store(0, Ordering::Relaxed);
        let _ = first_port();
    }
}

/// Connects from `port`, or the next one that is free.
async fn connect_from(address: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let none = |_| io::Error::from(io::ErrorKind::AddrNotAvailable);
    let (source, mut diagnosis) = (source(address)?, Diagnosis::open().map_err(none)?);
    let ports = iter::once(port).chain(iter::from_fn(next_port)).take(MAX_TRIES);
    for (tried, port) in ports.enumerate() {
        if tried % TRIES_AT_ONCE == TRIES_AT_ONCE.saturating_sub(1) {
            // Others of this thread have their turn.
            tokio::task::yield_now().await;
        }
        let own = SocketAddr::new(source, port);
        // The application's side too, which may be open for longer.
        let mut is_open = |from, to| {
            let found = diagnosis.ask(&ConnectionQuery::between(from, to)).map_err(none)?;
            Ok::<_, io::Error>(found.is_some_and(|found| !found.is_over()))
        };
        if is_open(own, address)? || is_open(address, own)? {
            continue;
        }
        let socket = socket(address)?;
        // Others may have the port in the meantime, or listen on it.
        if socket.bind(own).is_err() {
            continue;
        }
        match socket.connect(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            connected => return connected,
        }
    }
    Err(io::ErrorKind::AddrNotAvailable.into())
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Without it on the earlier connection too, a port in TIME_WAIT cannot be named.
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// The address that the system gives to connections to `address`.
fn source(address: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Sends nothing.
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip())
}

/// The first port to name, now that the system finds none.
fn first_port() -> Option<u16> {
    let mut named = NAMED.lock();
    *named = named.take().or_else(NamedPorts::read);
    named.as_mut()?.next()
}

/// The next port to name; none while the system is believed to find one soon.
fn next_port() -> Option<u16> {
    let mut named = NAMED.lock();
    if named.as_ref().is_some_and(|ports| ports.since.elapsed() > TIME_WAIT) {
        *named = None;
    }
    named.as_mut()?.next()
}

impl NamedPorts {
    /// Reads the system's settings; none if they cannot be read.
    fn read() -> Option<Self> {
        let range = std::fs::read_to_string(RANGE).ok()?;
        // Older systems reserve none.
        let reserved = std::fs::read_to_string(RESERVED).unwrap_or_default();
        Self::parse(&range, &reserved)
    }

    fn parse(range: &str, reserved: &str) -> Option<Self> {
        let mut bounds = range.split_whitespace().map(str::parse);
        let (first, last): (u16, u16) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
        let number = last.checked_sub(first)?.checked_div(PART)?.min(MOST);
        let first = last.saturating_sub(number);
        let reserved = reserved.trim().split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        let (range, reserved) = (first..=last, reserved.collect());
        Some(Self { range, reserved, next: first, since: Instant::now() })
    }
}

impl Iterator for NamedPorts {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        for _ in self.range.clone() {
            let port = self.next;
            let following = port.checked_add(1).filter(|next| self.range.contains(next));
            self.next = following.unwrap_or(*self.range.start());
            if !self.reserved.iter().any(|reserved| reserved.contains(&port)) {
                return Some(port);
            }
        }
        None
    }
}

/// The part of the range that is named, of which there are so many.
const PART: u16 = 4;
/// Ports that are named, at most, but one.
const MOST: u16 = 4095;
/// Time of a search by the system that is long, and long ones in a row that are put up with. A search of
/// few ports takes some ten microseconds.
const LONG_SEARCH: Duration = Duration::from_millis(1);
const MOST_LONG_SEARCHES: u32 = 8;
/// Ports that are tried before other tasks have their turn.
const TRIES_AT_ONCE: usize = 16;
/// Ports that are tried for one connection.
const MAX_TRIES: usize = 256;
/// Time that the system keeps the remains of a connection.
const TIME_WAIT: Duration = Duration::from_secs(60);
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_in_turn_and_reserved_ones_are_left_out() {
        let named = |range: &str, reserved: &str, number| {
            NamedPorts::parse(range, reserved).unwrap().take(number).collect::<Vec<_>>()
        };
        let reserved = "80,20018,20020-20021\n";
        assert_eq!(named("20000\t20023\n", reserved, 4), [20019, 20022, 20023, 20019]);
        assert_eq!(named("65533 65535", "\n", 2), [65535, 65535]);
        assert_eq!(named("1 2", "1-2", 1), [0; 0]);
        // Three quarters at least are left to the system.
        assert_eq!(named("32768 60999", "", 1), [60999 - 4095]);
        assert_eq!(named("20000 20999", "", 1), [20999 - 249]);
        for range in ["", "1", "a b", "1 65536", "2 1"] {
            assert!(NamedPorts::parse(range, "").is_none(), "{range}");
        }
    }

    #[test]
    fn ports_are_named_once_the_system_takes_long_to_find_one_again_and_again() {
        let long = || (0..MOST_LONG_SEARCHES).for_each(|_| note_search(LONG_SEARCH));
        long();
        note_search(Duration::ZERO);
        long();
        assert_eq!(next_port(), None);
        note_search(LONG_SEARCH);
        assert!(next_port().is_some());
        *NAMED.lock() = None;
    }
}
