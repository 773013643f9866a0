//! The sidecar from end to end: a client's bytes go in through a real connection, and what an application
//! behind it reads is judged.
//!
//! 1. Every request that reached the application is permitted by the policy, as the application read it.
//! 2. Somebody who knows nothing of the sidecar finds it in the client's bytes, too, with the same target,
//!    fields and body; of HTTP/1, in the same order.
//! 3. Nothing else reached the application: its library has nothing to complain of.
//! 4. When the client has sent its last byte, the connection ends, and the application's with it, without
//!    any bound on time.
//! 5. The sidecar does not panic.

mod application;
mod judge;
mod policy;
mod reading;
mod world;

use crate::http1;
use policy_proxy::sidecar::Limits;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use world::World;

/// Outcome of a run.
#[derive(Debug)]
pub struct Carried {
    /// Number of requests that reached the application.
    pub forwarded: usize,
    /// Bytes that the client received.
    pub answer: Vec<u8>,
    /// Error that its connection ended with; none after an orderly end.
    pub broke: Option<ErrorKind>,
}

/// Manner in which a client sends: the first byte of an input.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// Index of the port: of an unknown protocol, HTTP/1 or HTTP/2.
    port: usize,
    /// True if it reads responses before it ends its half.
    waits: bool,
    /// In how many pieces it sends.
    pieces: usize,
    /// Time of silence after which it takes an open connection to be finished.
    silence: Duration,
    /// Predicate that says that this response is all it waits for.
    is_all: fn(&[u8]) -> bool,
}

impl Manner {
    fn of(byte: u8) -> Self {
        let pieces = usize::from(byte >> 3 & 7) + 1;
        let (port, waits) = (usize::from(byte & 3) % 3, byte & 4 != 0);
        Self { port, waits, pieces, silence: SILENCE, is_all: |_| false }
    }
}

/// Inputs are cut here; larger heads are the matter of `large`.
const MOST: usize = 64 * 1024;
/// Long enough for most of what comes, and short, because each input takes it.
const SILENCE: Duration = Duration::from_millis(2);
/// Long enough for all of it.
const LONG_SILENCE: Duration = Duration::from_millis(500);
/// Number of silences that a client waits for a busy application.
const PATIENCE: u32 = 30;
/// Most time in which the sidecar ends a connection whose client has ended its half.
const BOUND: Duration = Duration::from_secs(10);
/// Between pieces.
const PAUSE: Duration = Duration::from_micros(200);

/// Holds a manner of sending and a client's bytes to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    with(data, SILENCE).map(drop)
}

/// The same without haste, and what it came to: a client that ends its half is gone to the sidecar, so that
/// all of them wait for their answers.
///
/// # Errors
/// What is wrong, in words.
pub fn carry(data: &[u8]) -> Result<Carried, String> {
    with(data, LONG_SILENCE)
}

fn with(data: &[u8], silence: Duration) -> Result<Carried, String> {
    static WORLD: LazyLock<Mutex<World>> =
        LazyLock::new(|| Mutex::new(World::start(Limits::default())));
    let Some((manner, bytes)) = data.split_first() else {
        return Ok(Carried { forwarded: 0, answer: Vec::new(), broke: None });
    };
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let manner = Manner { silence, ..Manner::of(*manner) };
    let manner = Manner { waits: manner.waits || silence == LONG_SILENCE, ..manner };
    through(&world, manner, bytes.get(..MOST).unwrap_or(bytes))
}

/// The largest heads that can be allowed (`--max-request-head`), of any number of fields. `is_all`: whether
/// an answer is all of it.
pub(crate) fn carry_large(
    port: usize,
    bytes: &[u8],
    is_all: fn(&[u8]) -> bool,
) -> Result<Carried, String> {
    static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| {
        let large = Limits {
            request_head: 16 << 20,
            response_head: 16 << 20,
            headers: usize::MAX,
            ..Limits::default()
        };
        Mutex::new(World::start(large))
    });
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    through(&world, Manner { port, waits: true, pieces: 1, silence: BOUND, is_all }, bytes)
}

fn through(world: &World, manner: Manner, bytes: &[u8]) -> Result<Carried, String> {
    let (address, policy) = world.ports.get(manner.port).ok_or("no such port")?;
    let talked = talk(*address, manner, bytes, || world.application.is_busy());
    let panics = world::panics();
    if !panics.is_empty() {
        return Err(format!("the sidecar panics: {}", panics.join("; ")));
    }
    let (answer, broke) = talked?;
    let came = world.application.take()?;
    // The libraries of client and application here read no such target, and others do.
    let readable = !http1::may_have_unencoded_targets(bytes);
    if let (Some(wrong), true) = (came.wrong.first(), readable) {
        return Err(format!("the application's library says {wrong}"));
    }
    for request in &came.requests {
        judge::permitted(policy, request)?;
    }
    if !came.requests.is_empty() && readable {
        judge::sent(&reading::requests(bytes), &came.requests)?;
    }
    Ok(Carried { forwarded: came.requests.len(), answer, broke })
}

/// Sends everything, ends its half, and returns the answer once the other half has ended.
fn talk(
    address: SocketAddr,
    manner: Manner,
    bytes: &[u8],
    is_busy: impl Fn() -> bool,
) -> Result<(Vec<u8>, Option<ErrorKind>), String> {
    let failed = |error: std::io::Error| format!("no connection to the sidecar: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_write_timeout(Some(BOUND)).map_err(failed)?;
    let writing = stream.try_clone().map_err(failed)?;
    let mut answer = Vec::new();
    let ended = if bytes.len() <= MOST {
        send(writing, bytes, manner.pieces);
        match manner.waits {
            true => listen(&mut stream, &mut answer, manner, &is_busy),
            false => None,
        }
    } else {
        // More than the socket holds, so that it must be sent while the answer is taken.
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(writing, bytes, 1));
            let is_busy = || !sending.is_finished() || is_busy();
            listen(&mut stream, &mut answer, manner, &is_busy)
        })
    };
    if let Some(broke) = ended {
        return Ok((answer, broke));
    }
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(BOUND)).map_err(failed)?;
    match stream.read_to_end(&mut answer) {
        Err(error) if is_late(error.kind()) => Err("the connection stays open".into()),
        Ok(_) => Ok((answer, None)),
        // Reset: refused before all of it was read.
        Err(error) => Ok((answer, Some(error.kind()))),
    }
}

/// The sidecar may refuse before it has taken everything.
fn send(mut stream: TcpStream, bytes: &[u8], pieces: usize) {
    let length = bytes.len().div_ceil(pieces).max(1);
    for (number, piece) in bytes.chunks(length).enumerate() {
        if number > 0 {
            std::thread::sleep(PAUSE);
        }
        if stream.write_all(piece).is_err() {
            return;
        }
    }
}

fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Takes answers until one is all, or until none comes while the application is at rest. `Some`: the other
/// half has ended, in order or with an error.
fn listen(
    stream: &mut TcpStream,
    answer: &mut Vec<u8>,
    manner: Manner,
    is_busy: &impl Fn() -> bool,
) -> Option<Option<ErrorKind>> {
    let silence = manner.silence;
    if let Err(error) = stream.set_read_timeout(Some(silence)) {
        return Some(Some(error.kind()));
    }
    let begun = Instant::now();
    let mut chunk = [0; 16 * 1024];
    while begun.elapsed() < BOUND && !(manner.is_all)(answer) {
        match stream.read(&mut chunk) {
            Ok(0) => return Some(None),
            Ok(read) => answer.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            // By libFuzzer's clock.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if !is_late(error.kind()) => return Some(Some(error.kind())),
            Err(_) if !is_busy() || begun.elapsed() > silence.saturating_mul(PATIENCE) => break,
            Err(_) => {}
        }
    }
    None
}
