//! What is on the wire between two pods: a capture of every frame on the node's bridge.

use super::super::away::controller_stays;
use super::super::clients::Got;
use super::super::world::{eventually, node};
use super::{AUTHENTICATED, call, workloads};
use policy_tests::cluster::node::{Node, Place};
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::time::sleep;

/// Writes each TCP payload that passes a bridge of the node, as it is.
const CAPTURE: &str = "
import socket, sys
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
sys.stdout.buffer.write(b'ready\\n')
sys.stdout.buffer.flush()
while True:
    frame = frames.recv(65535)
    if frame[12:14] == b'\\x08\\x00' and frame[23] == 6:
        header = 14 + (frame[14] & 15) * 4
        offset = header + (frame[header + 12] >> 4) * 4
        end = 14 + int.from_bytes(frame[16:18], 'big')
        if end > offset:
            sys.stdout.buffer.write(frame[offset:end])
            sys.stdout.buffer.flush()
";

/// A running capture.
struct Frames(Child);

impl Frames {
    async fn start(node: &Node) -> Self {
        let mut command = node.command(Place::Node, "python3");
        command.args(["-u", "-c", CAPTURE]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let started = tokio::task::spawn_blocking(move || {
            let mut ready = [0; 6];
            child.stdout.as_mut().unwrap().read_exact(&mut ready).map(|()| (child, ready))
        });
        let (child, ready) = started.await.unwrap().expect("the capture starts");
        assert_eq!(&ready, b"ready\n");
        Self(child)
    }

    /// Every payload until now.
    async fn stop(mut self) -> Vec<u8> {
        // The last frames are on their way.
        sleep(Duration::from_millis(500)).await;
        tokio::task::spawn_blocking(move || {
            let mut output = self.0.stdout.take().unwrap();
            self.0.kill().unwrap();
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).unwrap();
            self.0.wait().unwrap();
            bytes
        })
        .await
        .unwrap()
    }
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

#[tokio::test]
async fn what_pods_of_the_mesh_say_to_each_other_is_on_no_wire() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let outside = "portcullis.dev/inject: disabled";
    let names = [("web", ""), ("caller", ""), ("plain", outside)];
    let namespace = workloads(node, "wire", AUTHENTICATED, &names).await;
    let url = |name: &str, word: &str| format!("http://{name}.{namespace}/{word}");
    let first = url("web", "first");
    eventually("meshed", Got::Status(200), || call(node, &namespace, "caller", &first)).await;

    let frames = Frames::start(node).await;
    let meshed = call(node, &namespace, "caller", &url("web", "between-the-two-of-us")).await;
    // The capture sees what is not encrypted.
    let plain = call(node, &namespace, "caller", &url("plain", "for-all-the-world")).await;
    let bytes = frames.stop().await;
    assert_eq!((meshed, plain), (Got::Status(200), Got::Status(200)));
    assert!(contains(&bytes, "for-all-the-world"), "{} bytes", bytes.len());
    assert!(!contains(&bytes, "between-the-two-of-us"), "in plaintext on the wire");
    node.remove_namespace(&namespace).await.unwrap();
}
