//! Applications that speak first.
//!
//! A client of such an application is silent, so that nothing can be detected in its bytes. Where a
//! connection may carry bytes, the application is therefore dialled while the protocol is looked for.
//! If it speaks before the client, the connection is bytes, unless it speaks HTTP; so it is if the
//! application cannot be reached or closes, which the client learns at once. Nothing reaches the client
//! before the connection is decided on like any other ([`super::opaque`]), and the client's
//! bytes are then watched for HTTP.
//!
//! Clients that speak first, as of HTTP, do so at once: for them the application is not dialled here.

use super::limits::SocketOptions;
use super::settings::SidecarConfig;
use super::upstream;
use super::worker::SidecarState;
use policy_enforce::respond::Fault;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

/// The application's side of a connection whose client has not spoken yet.
#[derive(Debug)]
pub(super) struct ServerFirst {
    address: SocketAddr,
    connect: Duration,
    sockets: SocketOptions,
    begun: Instant,
    state: DialState,
}

#[derive(Debug)]
enum DialState {
    Undialled,
    Open(TcpStream),
    /// The application cannot be reached, or reset the connection.
    Failed(Fault),
    /// The application speaks HTTP.
    Http,
}

/// The protocol of the application's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    Http,
    Bytes,
    Incomplete,
    /// The application closed without any.
    Ended,
}

/// Time for which a client may be silent before the application is dialled.
const QUIET: Duration = Duration::from_millis(10);
/// Time from the beginning of a connection before which it is not taken for plaintext: a meshed client
/// sends its ClientHello within it.
const HOLD: Duration = Duration::from_millis(30);
/// Time from the beginning of a connection before which its client does not learn that the application
/// is away: a client of HTTP speaks within it, and gets an answer; a meshed client begins its handshake.
const AWAY: Duration = Duration::from_millis(400);
/// Time for the rest of an incomplete greeting.
const REST: Duration = Duration::from_millis(20);

impl ServerFirst {
    /// The side of a connection that begins now. `address`: the application's.
    pub(super) fn new(address: SocketAddr, config: &SidecarConfig) -> Self {
        Self {
            address,
            connect: config.timeouts.connect,
            sockets: config.sockets,
            begun: Instant::now(),
            state: DialState::Undialled,
        }
    }

    /// Time since the connection began.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// True if the application speaks, closes or cannot be reached before the client speaks, which may be meshed if there is a
    /// certificate of our own. False once the client has sent a byte or closed, or after the timeout of
    /// the detection.
    pub(super) async fn precedes(&mut self, client: &TcpStream, shared: &SidecarState) -> bool {
        let within = shared.config.timeouts.detect;
        let may_be_meshed = shared.identity.current().is_some();
        let hold = if may_be_meshed { HOLD } else { Duration::ZERO };
        let hold = self.begun.checked_add(hold).unwrap_or(self.begun);
        let greeting = async {
            self.greeting().await;
            sleep_until(hold).await;
        };
        let mut byte = [0; 1];
        tokio::select! {
            biased;
            _ = client.peek(&mut byte) => false,
            () = greeting => true,
            () = sleep(within) => false,
        }
    }

    /// Waits until the application has spoken something other than HTTP, has closed, or could not be
    /// reached; for ever if it does not. Dropping the future keeps what was reached.
    pub(super) async fn greeting(&mut self) {
        if matches!(self.state, DialState::Undialled) {
            sleep(QUIET).await;
            let dialled = upstream::connect(self.address, self.connect, &self.sockets).await;
            self.state = dialled.map_or_else(DialState::Failed, DialState::Open);
        }
        if let DialState::Open(server) = &self.state {
            match first_bytes(server).await {
                Ok(Greeting::Bytes) => return,
                Ok(Greeting::Ended) => {}
                Ok(Greeting::Http | Greeting::Incomplete) => self.state = DialState::Http,
                // The socket tells it only once.
                Err(_) => self.state = DialState::Failed(Fault::Broken),
            }
        }
        match self.state {
            DialState::Open(_) | DialState::Failed(_) => {
                sleep_until(self.begun.checked_add(AWAY).unwrap_or(self.begun)).await;
            }
            DialState::Http | DialState::Undialled => pending().await,
        }
    }

    /// Returns the connection to the application, or the failure to reach it, if it was dialled.
    pub(super) fn into_server(self) -> Option<Result<TcpStream, Fault>> {
        match self.state {
            DialState::Open(server) => Some(Ok(server)),
            DialState::Failed(fault) => Some(Err(fault)),
            DialState::Undialled | DialState::Http => None,
        }
    }
}

/// Waits for the application's first bytes or its end, and leaves them unread. Bytes that may become
/// HTTP and go no further are incomplete.
async fn first_bytes(server: &TcpStream) -> io::Result<Greeting> {
    let mut is_incomplete = false;
    loop {
        let mut first = [0; LONGEST];
        let read = server.peek(&mut first).await?;
        if read == 0 {
            return Ok(Greeting::Ended);
        }
        let told = greeting(first.get(..read).unwrap_or_default());
        if told != Greeting::Incomplete || is_incomplete {
            return Ok(told);
        }
        is_incomplete = true;
        sleep(REST).await;
    }
}

/// Tells HTTP: a response (RFC 9112 section 4), or the SETTINGS frame that an HTTP/2 server may send
/// at once (RFC 9113 sections 3.4 and 4.1), of less than 256 bytes.
fn greeting(first: &[u8]) -> Greeting {
    let settings = |(at, byte): (usize, &u8)| match at {
        0 | 1 | 4..LONGEST => *byte == 0,
        3 => *byte == SETTINGS,
        _ => true,
    };
    let is_settings = first.iter().enumerate().all(settings);
    let is_response = RESPONSE.iter().zip(first).all(|(wanted, byte)| wanted == byte);
    match (is_response, is_settings) {
        (true, _) if first.len() >= RESPONSE.len() => Greeting::Http,
        (_, true) if first.len() >= LONGEST => Greeting::Http,
        (true, _) | (_, true) => Greeting::Incomplete,
        (false, false) => Greeting::Bytes,
    }
}

const RESPONSE: &[u8] = b"HTTP/";
/// Bytes of the header of an HTTP/2 frame.
const LONGEST: usize = 9;
/// The type of an HTTP/2 SETTINGS frame.
const SETTINGS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_bytes_unless_they_begin_a_response_or_http2() {
        for (first, expected) in [
            (&b"HTTP/1.1 408 Request Timeout\r\n"[..], Greeting::Http),
            (b"HTTP/", Greeting::Http),
            (b"HTTP", Greeting::Incomplete),
            (b"H", Greeting::Incomplete),
            (b"HELO", Greeting::Bytes),
            (b"http/1.1", Greeting::Bytes),
            (b"\0\0\x12\x04\0\0\0\0\0\0\x03", Greeting::Http),
            (b"\0\0\0\x04\0\0\0\0\0", Greeting::Http),
            (b"\0\0\0\x04\0\0\0\0", Greeting::Incomplete),
            (b"\0", Greeting::Incomplete),
            // Another frame, a flag, a stream: none of them begins a connection.
            (b"\0\0\x12\x06\0\0\0\0\0", Greeting::Bytes),
            (b"\0\0\0\x04\x01\0\0\0\0", Greeting::Bytes),
            (b"\0\0\x12\x04\0\0\0\0\x01", Greeting::Bytes),
            // MySQL: a length, number 0 and version 10.
            (b"\x4a\0\0\0\x0a8.0.36\0", Greeting::Bytes),
            (b"\x4a", Greeting::Bytes),
            (b"220 mail.example ESMTP\r\n", Greeting::Bytes),
            (b"SSH-2.0-OpenSSH_9.6\r\n", Greeting::Bytes),
            (b"\n", Greeting::Bytes),
        ] {
            assert_eq!(greeting(first), expected, "{}", first.escape_ascii());
        }
    }
}
