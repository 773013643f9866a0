//! Capture of what pods send to each other: every frame on the node, joined to streams of bytes.

use policy_tests::cluster::node::{Node, Place};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::time::sleep;

/// Keeps each TCP payload that one of the named pods sends to another, until standard input ends, and
/// writes them all: source, destination, sequence number and bytes.
const CAPTURE: &str = "
import select, socket, sys
def family(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET
pods = {socket.inet_pton(family(pod), pod) for pod in sys.argv[1:]}
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
frames.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
kept = []
sys.stdout.write('ready\\n')
sys.stdout.flush()
def place(address, port):
    port = int.from_bytes(port, 'big')
    if len(address) == 16:
        return f'[{socket.inet_ntop(socket.AF_INET6, address)}]:{port}'
    return f'{socket.inet_ntoa(address)}:{port}'
def number(frame, at):
    return int.from_bytes(frame[at:at + 2], 'big')
while True:
    readable = select.select([sys.stdin, frames], [], [])[0]
    if frames not in readable:
        break
    frame = frames.recv(1 << 17)
    if frame[12:14] == b'\\x08\\x00':
        source, destination, protocol = frame[26:30], frame[30:34], frame[23]
        tcp, end = 14 + (frame[14] & 15) * 4, 14 + number(frame, 16)
    elif frame[12:14] == b'\\x86\\xdd':
        source, destination, protocol = frame[22:38], frame[38:54], frame[20]
        tcp, end = 54, 54 + number(frame, 18)
    else:
        continue
    if protocol != 6 or not {source, destination} <= pods:
        continue
    payload = frame[tcp + (frame[tcp + 12] >> 4) * 4:end]
    if payload:
        ends = place(source, frame[tcp:tcp + 2]), place(destination, frame[tcp + 2:tcp + 4])
        kept.append((*ends, int.from_bytes(frame[tcp + 4:tcp + 8], 'big'), payload.hex()))
for frame in kept:
    print(*frame)
";

/// A running capture.
pub(super) struct Frames(Child);

/// What one end of a connection sent to the other.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

impl Frames {
    /// Captures what pods with these addresses send to each other from now on.
    pub(super) async fn start(node: &Node, pods: &[IpAddr]) -> Self {
        let mut command = node.command(Place::Node, "python3");
        command.args(["-u", "-c", CAPTURE]).args(pods.iter().map(ToString::to_string));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let started = tokio::task::spawn_blocking(move || {
            let mut ready = [0; 6];
            child.stdout.as_mut().unwrap().read_exact(&mut ready).map(|()| (child, ready))
        });
        let (child, ready) = started.await.unwrap().expect("the capture starts");
        assert_eq!(&ready, b"ready\n");
        Self(child)
    }

    /// All that was sent on each connection until now.
    pub(super) async fn stop(self) -> Vec<Sent> {
        // The last frames are on their way.
        sleep(Duration::from_millis(500)).await;
        // Standard input ends first.
        let ended = tokio::task::spawn_blocking(|| self.0.wait_with_output());
        let ended = ended.await.unwrap().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        streams(&String::from_utf8(ended.stdout).unwrap())
    }
}

/// Both ends of a connection as one of them sees it.
type Way = (SocketAddr, SocketAddr);

/// Joins payloads by their sequence numbers. A frame is seen at each interface that it passes.
fn streams(frames: &str) -> Vec<Sent> {
    let mut ways: BTreeMap<Way, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
    for frame in frames.lines() {
        let fields: Vec<&str> = frame.split(' ').collect();
        let [from, to, sequence, bytes] = fields[..] else { panic!("{frame}") };
        let way = (from.parse().unwrap(), to.parse().unwrap());
        let pairs = bytes.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        let bytes: Vec<_> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let seen = ways.entry(way).or_default().entry(sequence.parse().unwrap()).or_default();
        if bytes.len() > seen.len() {
            *seen = bytes;
        }
    }
    ways.into_iter().map(|((_, to), pieces)| Sent { to, bytes: joined(pieces) }).collect()
}

/// Joins the pieces of one stream, of which some may have been sent again.
fn joined(pieces: BTreeMap<u32, Vec<u8>>) -> Vec<u8> {
    let Some((&first, _)) = pieces.first_key_value() else { return Vec::new() };
    let mut stream = Vec::new();
    for (sequence, bytes) in pieces {
        let offset = usize::try_from(sequence.wrapping_sub(first)).unwrap();
        let known = stream.len().checked_sub(offset);
        let known = known.unwrap_or_else(|| panic!("frames are missing at {}", stream.len()));
        stream.extend(bytes.into_iter().skip(known));
    }
    stream
}

impl Sent {
    pub(super) fn contains(&self, word: &str) -> bool {
        self.bytes.windows(word.len()).any(|window| window == word.as_bytes())
    }

    /// True if all of it is records of TLS, beginning with a handshake. The last may be cut.
    pub(super) fn is_tls(&self) -> bool {
        const HANDSHAKE: u8 = 22;
        let mut left = self.bytes.as_slice();
        let mut is_first = true;
        while let Some((&[kind, major, minor, high, low], rest)) = left.split_first_chunk() {
            let kinds = if is_first { HANDSHAKE..=HANDSHAKE } else { 20..=23 };
            if !kinds.contains(&kind) || major != 3 || !(1..=4).contains(&minor) {
                return false;
            }
            is_first = false;
            left = rest.get(usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default();
        }
        !is_first
    }
}
