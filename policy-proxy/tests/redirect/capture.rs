//! Proof of redirection by its own paths.

use crate::sidecar::Sidecar;
use crate::support::*;
use policy_proxy::capture::Capture;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU16;

const CANARY: &str = "127.0.0.1:4193";
const PROBED: NonZeroU16 = NonZeroU16::new(4192).unwrap();

/// The status and body that `from` gets.
fn get(from: &Namespace, to: SocketAddr, path: &str) -> (String, String) {
    let mut stream = from.inside(|| connect(to)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: pod\r\nconnection: close\r\n\r\n").unwrap();
    let all = read_all(stream);
    let body = all.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (all.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

const MISSING: &str =
    "capture: connections from the pod do not reach the sidecar (canary 127.0.0.1:4193)";

/// Without a rule for the canary, the call reaches nobody.
#[test]
fn probes_arrive_by_the_redirection_alone_and_fail_while_calls_of_the_canary_do() {
    let Some(world) = world_or_skip() else { return };
    let output = world.redirect("--outbound-port 4140");
    assert!(output.status.success(), "{}", said(&output));
    let ips = POD.map(|ip| ip.to_string()).join(",");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let flags = ["--inbound-ips", &ips, "--canary", CANARY];
    let _sidecar = Sidecar::following(&world, nobody, &flags);
    let status = |(status, _): (String, String)| status;
    for pod in POD {
        let at = |port| SocketAddr::new(pod, port);
        let failed = ("503".to_owned(), format!("{MISSING}\n"));
        assert_eq!(get(&world.client, at(4192), "/live"), failed);
        let (code, body) = get(&world.client, at(4192), "/ready");
        assert_eq!((code.as_str(), body.contains(MISSING)), ("503", true), "{body}");
        assert_eq!(status(get(&world.client, at(4192), "/metrics")), "404");
        // A proxy that runs is live. That proves nothing of redirection.
        assert_eq!(status(get(&world.client, at(4191), "/live")), "200");
        let (code, body) = get(&world.client, at(4191), "/ready");
        assert_eq!((code.as_str(), body.contains(MISSING)), ("503", true), "{body}");
        let inside = world.pod.inside(|| connect(at(4192))).unwrap_err();
        assert_eq!(inside.kind(), std::io::ErrorKind::ConnectionRefused, "nobody listens there");
    }
    assert!(world.redirect("--undo").status.success());
    for pod in POD {
        let outside = world.connect(SocketAddr::new(pod, 4192)).unwrap_err();
        assert_eq!(outside.kind(), std::io::ErrorKind::ConnectionRefused, "not redirected");
    }
}

/// Calls the canary as the sidecar's user, with a listener as the sidecar's outbound one.
#[test]
fn the_rules_lead_the_sidecars_call_back_to_it() {
    for mode in ["nft", "iptables"] {
        let Some(world) = world_or_skip() else { return };
        let capture = Capture::new(CANARY.parse().unwrap(), PROBED);
        let listener = world.pod.inside(|| TcpListener::bind("127.0.0.1:4140").unwrap());
        let receiver = capture.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let from = stream.peer_addr().unwrap().ip();
                let original = original(&stream, from).unwrap();
                assert!(receiver.is_canary(original), "{original}");
                within_runtime(|| {
                    stream.set_nonblocking(true).unwrap();
                    receiver.receive(tokio::net::TcpStream::from_std(stream).unwrap())
                });
            }
        });
        assert_ne!(capture.missing(), None);
        let flags = format!("--mode {mode} --outbound-port 4140 --canary {CANARY}");
        let output = world.redirect(&flags);
        assert!(output.status.success(), "{}", said(&output));
        let calls = || async {
            let calls = async {
                tokio::select! {
                    () = capture.clone().run() => {}
                    () = proven(&capture) => {}
                }
            };
            tokio::time::timeout(PATIENCE, calls).await.unwrap();
        };
        world.pod.inside(|| as_user(2102, || within_runtime(calls)));
        assert_eq!(capture.missing(), None, "{mode}");
    }
}

async fn proven(capture: &Capture) {
    while capture.missing().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn within_runtime<F: Future<Output = ()>>(work: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work().await });
}
