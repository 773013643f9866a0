//! The binary: invalid settings, and a run from start to drained end.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use policy_core::feature::Feature;
use policy_core::{AccessLogs, DefaultPolicy, Facts, Logs, Protocol, Revision};
use policy_proto::messages::policy_discovery_server::{PolicyDiscovery, PolicyDiscoveryServer};
use policy_proto::messages::watch_response::Kind;
use policy_proto::messages::{Undeclared, WatchRequest, WatchResponse, Workload};
use policy_proto::native::{encode_facts, encode_port};
use policy_testkit::wait_until_blocking;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

const LONG: Duration = Duration::from_secs(60);

fn proxy(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_policy-proxy"));
    command
        .env_clear()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn settings_that_are_missing_or_invalid_are_named_with_exit_code_64() {
    let missing = proxy(&words("run")).output().unwrap();
    assert_eq!(missing.status.code(), Some(64));
    assert!(said(&missing).contains("--policy-addr"), "{}", said(&missing));
    let mut invalid = proxy(&words("run"));
    invalid.env("LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT", "soon");
    let invalid = invalid.output().unwrap();
    assert_eq!(invalid.status.code(), Some(64));
    assert!(
        said(&invalid).contains("LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT: `soon`"),
        "{}",
        said(&invalid)
    );
    let unknown = proxy(&words("run --no-such-flag")).output().unwrap();
    assert_eq!(unknown.status.code(), Some(64));
    assert_eq!(proxy(&words("--version")).output().unwrap().status.code(), Some(0));
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_proxy_takes_as_many_descriptors_as_the_system_allows() {
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .args(["-c", "ulimit -S -n 64 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_policy-proxy")])
        .args(words(
            "run --identity none --policy-addr 127.0.0.1:1 --workload ns:web-0 \
             --admin 127.0.0.1:0 --forward 127.0.0.1:0,80,127.0.0.1:1",
        ))
        .stderr(Stdio::null());
    let proxy = Killed(command.spawn().unwrap());
    let limits = format!("/proc/{}/limits", proxy.0.id());
    let bounds = || {
        let text = std::fs::read_to_string(&limits).unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let mut numbers = line.split_whitespace().skip(3).map(str::to_owned);
        (numbers.next().unwrap(), numbers.next().unwrap())
    };
    let (_, hard) = bounds();
    assert_ne!(hard, "64", "the test needs a higher bound");
    wait_until_blocking("the bound is raised", || bounds() == (hard.clone(), hard.clone()));
}

/// The files of a process that cannot be dumped belong to root.
#[test]
fn the_proxy_whose_memory_holds_keys_cannot_be_dumped() {
    // Another user may not be able to name the program, in root's home.
    let program = File::open(env!("CARGO_BIN_EXE_policy-proxy")).unwrap();
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.env_clear().stderr(Stdio::null()).args(words(
        "run --identity none --policy-addr 127.0.0.1:1 --workload ns:web-0 \
         --admin 127.0.0.1:0 --forward 127.0.0.1:0,80,127.0.0.1:1",
    ));
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let proxy = Killed(command.spawn().unwrap());
    let of = |file: &str| format!("/proc/{}/{file}", proxy.0.id());
    // While a program is being started, its files may belong to root in any case.
    wait_until_blocking("it runs", || std::fs::read_dir(of("task")).unwrap().count() > 1);
    wait_until_blocking("its memory is root's", || {
        std::fs::metadata(of("mem")).unwrap().uid() == 0
    });
}

#[test]
fn an_address_in_use_is_a_failed_start_and_the_termination_message_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("termination-log");
    std::fs::write(&log, "").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let arguments = format!(
        "run --identity none --policy-addr 127.0.0.1:1 --workload ns:web-0 --admin {} --forward 127.0.0.1:0,80,127.0.0.1:1",
        taken.local_addr().unwrap()
    );
    let mut command = proxy(&words(&arguments));
    let output = command.env("PORTCULLIS_TERMINATION_LOG", &log).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = std::fs::read_to_string(&log).unwrap();
    assert!(message.starts_with("cannot listen on admin address"), "{message}");
    assert!(said(&output).ends_with(&format!("policy-proxy: {message}\n")), "{}", said(&output));
}

#[test]
fn a_refused_flag_is_told_in_the_termination_log_that_the_same_command_line_names() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("termination-log");
    std::fs::write(&log, "").unwrap();
    let line = format!("run --no-such-flag --termination-log {}", log.display());
    let output = proxy(&words(&line)).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let message = std::fs::read_to_string(&log).unwrap();
    assert!(message.contains("'--no-such-flag'"), "{message}");
    assert_eq!(said(&output), message);
}

/// A controller that sends one workload with one port and an admin port of this default policy.
struct Fake {
    port: NonZeroU16,
    admin: NonZeroU16,
    policy: DefaultPolicy,
    /// The workload's log settings.
    logs: watch::Receiver<Logs>,
}

#[tonic::async_trait]
impl PolicyDiscovery for Fake {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        _: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (say, stream) = mpsc::channel(8);
        let ports = [self.port, self.admin];
        let workload = move |logs: &Logs| Workload {
            name: "pod ns/web-0".to_owned(),
            facts: Some(encode_facts(&Facts { logs: logs.clone(), ..Facts::default() })),
            declared_ports: ports.iter().map(|port| port.get().into()).collect(),
            undeclared: Undeclared::Default.into(),
            revision: None,
            takes_refusals: false,
        };
        let mut logs = self.logs.clone();
        let begun = workload(&logs.borrow_and_update());
        let mut policy = policy_core::testing::default_policy(self.policy);
        policy.protocol = Protocol::Detect { timeout: Duration::from_secs(10) };
        let encoded = encode_port(&policy, &Feature::ALL.into_iter().collect());
        let updates = ports.map(|port| Kind::Port(encoded.full(port, &Revision::default())));
        for kind in std::iter::once(Kind::Workload(begun)).chain(updates) {
            say.send(Ok(WatchResponse { kind: Some(kind) })).await.unwrap();
        }
        tokio::spawn(async move {
            while logs.changed().await.is_ok() {
                let kind = Some(Kind::Workload(workload(&logs.borrow_and_update())));
                if say.send(Ok(WatchResponse { kind })).await.is_err() {
                    return;
                }
            }
            // The stream stays open as long as the server.
            say.closed().await;
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

fn controller(fake: Fake) -> SocketAddr {
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            let service = PolicyDiscoveryServer::new(fake);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
    });
    address.recv().unwrap()
}

/// Starts an application that answers every connection alike, after `delay`.
fn application(delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut head = [0; 1024];
                let _ = stream.read(&mut head);
                std::thread::sleep(delay);
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
                );
            });
        }
    });
    address
}

fn free_port() -> NonZeroU16 {
    NonZeroU16::new(policy_testkit::free_port().unwrap()).unwrap()
}

fn get(port: NonZeroU16, path: &str) -> std::io::Result<String> {
    get_with(port, path, "host: web")
}

fn get_with(port: NonZeroU16, path: &str, headers: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port.get()))?;
    stream.set_read_timeout(Some(LONG))?;
    write!(stream, "GET {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A proxy that is killed on drop.
struct Running {
    child: Child,
    /// Lines of its log.
    lines: Receiver<String>,
    listener: NonZeroU16,
    admin: NonZeroU16,
    /// Changes the log settings that the controller sends.
    say: watch::Sender<Logs>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a proxy; retries with other ports, because a free port may be taken by the time it is
    /// bound.
    fn start(delay: Duration) -> Self {
        Self::start_under(DefaultPolicy::AllUnauthenticated, delay)
    }

    fn start_under(policy: DefaultPolicy, delay: Duration) -> Self {
        let started = (0..10).find_map(|_| Self::try_start(policy, delay));
        started.expect("ten times an address was in use")
    }

    fn try_start(policy: DefaultPolicy, delay: Duration) -> Option<Self> {
        let (port, listener, admin) = (NonZeroU16::new(8080).unwrap(), free_port(), free_port());
        let (say, logs) = watch::channel(Logs::default());
        let arguments = format!(
            "run --identity none --workload ns:web-0 --policy-addr {} --admin 127.0.0.1:{admin}",
            controller(Fake { port, admin, policy, logs })
        );
        let mut arguments = words(&arguments);
        let forward = format!("127.0.0.1:{listener},{port},{}", application(delay));
        arguments.extend(["--forward".to_owned(), forward]);
        let mut child = proxy(&arguments).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (said, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                eprintln!("{line}");
                let _ = said.send(line);
            }
        });
        let mut running = Self { child, lines, listener, admin, say };
        let begun = Instant::now();
        while !get(admin, "/ready").is_ok_and(|answer| answer.contains("200 OK")) {
            if running.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(begun.elapsed() < LONG, "never: ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(running)
    }

    fn signal(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    fn exit_code(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < LONG, "the proxy does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn it_becomes_ready_forwards_counts_and_drains_on_sigterm() {
    let mut proxy = Running::start(Duration::from_millis(700));
    let listener = proxy.listener;
    let open = std::thread::spawn(move || get(listener, "/slow").unwrap());
    std::thread::sleep(Duration::from_millis(250));
    proxy.signal();
    let answer = open.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "what is open is finished: {answer}");
    assert_eq!(proxy.exit_code(), Some(0));
}

impl Running {
    /// Sends requests until a log line contains `words`, and returns the lines up to it.
    fn request_until_logged(&self, words: &str) -> Vec<String> {
        let mut lines = Vec::new();
        wait_until_blocking(words, || {
            get(self.listener, "/logged").unwrap();
            lines.extend(self.lines.try_iter());
            lines.iter().any(|line: &String| line.contains(words))
        });
        lines
    }
}

#[test]
fn what_it_logs_follows_the_controller_and_goes_back_to_what_it_was_started_with() {
    let proxy = Running::start(Duration::ZERO);
    get(proxy.listener, "/logged").unwrap();
    let debug = Some("policy_proxy=debug,warn".into());
    let json = Logs { filter: debug.clone(), access_log: Some(AccessLogs::Json) };
    proxy.say.send_replace(json.clone());
    let begun = proxy.request_until_logged("\"uri\":\"/logged\"");
    assert!(
        begun.iter().any(|line| line.contains("changes with the pod's annotation")),
        "{begun:?}"
    );
    assert!(!begun.iter().any(|line| line.contains("\"GET /logged HTTP/1.1\"")), "{begun:?}");
    proxy.say.send_replace(Logs { access_log: Some(AccessLogs::Apache), ..json });
    let debugged = proxy.request_until_logged("\"GET /logged HTTP/1.1\" 200");
    assert!(debugged.iter().any(|line| line.contains("DEBUG")), "{debugged:?}");
    proxy.say.send_replace(Logs { filter: Some("a=loud".into()), access_log: None });
    proxy.request_until_logged("invalid log filter in the pod's annotation, using the initial one");
    // Reads pending lines until there are none.
    let quiet = || {
        get(proxy.listener, "/logged").unwrap();
        let line = proxy.lines.recv_timeout(Duration::from_millis(200));
        line.is_err()
    };
    wait_until_blocking("the access log is off", quiet);
    proxy.say.send_replace(Logs { filter: debug, access_log: None });
    proxy.say.send_replace(Logs::default());
    proxy.request_until_logged("the log filter changes");
    wait_until_blocking("and stays off", quiet);
}

#[test]
fn its_metrics_answer_loopback_whatever_the_policy_says() {
    let proxy = Running::start_under(DefaultPolicy::Deny, Duration::ZERO);
    let status = |headers: &str| {
        let answer = get_with(proxy.admin, "/metrics", headers).unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let forwarded = format!("host: localhost:{}", proxy.admin);
    assert_eq!(status(&forwarded), "200");
    assert_eq!(status("host: web"), "403", "by a name, as of a page that was rebound");
    assert_eq!(status(&format!("{forwarded}\r\norigin: http://page.example")), "403");
    let line = || {
        proxy
            .lines
            .try_iter()
            .any(|line| line.contains("request denied") && line.contains("path=\"/metrics\""))
    };
    wait_until_blocking("the admin port's refusal is logged", line);
}

/// The log of five requests from start to end, at default settings.
fn logged_under(policy: DefaultPolicy) -> Vec<String> {
    let mut proxy = Running::start_under(policy, Duration::ZERO);
    for _ in 0..5 {
        get(proxy.listener, "/a%2Db?token=secret").unwrap();
    }
    proxy.signal();
    assert_eq!(proxy.exit_code(), Some(0));
    proxy.lines.iter().collect()
}

#[test]
fn it_logs_at_default_settings_whom_it_denied_and_whom_it_audited() {
    for (policy, first, more, of) in [
        (DefaultPolicy::Deny, "request denied", "more requests denied", "reason=\"unauthorized\""),
        (DefaultPolicy::Audit, "request audited", "more requests audited", "audit"),
    ] {
        let lines = logged_under(policy);
        let find = |what: &str| lines.iter().filter(|line| line.contains(what)).collect::<Vec<_>>();
        let [first] = find(first)[..] else { panic!("{lines:?}") };
        let workload = "workload=\"ns/web-0\"";
        for part in
            [workload, "port=8080", "client=127.0.0.1:", "method=\"GET\"", "path=\"/a-b\"", of]
        {
            assert!(first.contains(part), "{part} in {first}");
        }
        let [more] = find(more)[..] else { panic!("{lines:?}") };
        assert!(more.contains("more=4"), "what was counted is said before the end: {more}");
        assert!(!lines.iter().any(|line| line.contains("secret")), "{lines:?}");
    }
}

#[test]
fn metrics_count_what_was_decided() {
    let proxy = Running::start(Duration::ZERO);
    assert!(get(proxy.listener, "/").unwrap().ends_with("hi"));
    let metrics = get(proxy.admin, "/metrics").unwrap();
    let counted = |line: &str| {
        line.starts_with("inbound_http_authz_allow_total{")
            && line.contains("srv_port=\"8080\"")
            && line.contains("authz_name=\"all-unauthenticated\"")
            && line.ends_with(" 1")
    };
    assert!(metrics.lines().any(counted), "{metrics}");
    let acknowledged = || {
        get(proxy.admin, "/metrics")
            .is_ok_and(|text| text.contains("policy_updates_acknowledged_total 2"))
    };
    wait_until_blocking("both ports are acknowledged", acknowledged);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut proxy = Running::start(Duration::from_secs(15));
    let listener = proxy.listener;
    std::thread::spawn(move || get(listener, "/slow"));
    std::thread::sleep(Duration::from_millis(250));
    proxy.signal();
    std::thread::sleep(Duration::from_millis(250));
    assert!(proxy.child.try_wait().unwrap().is_none(), "it waits for what is open");
    let begun = Instant::now();
    proxy.signal();
    assert_eq!(proxy.exit_code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Runs an HTTP/2 client that acknowledges PINGs that were not sent, until it has an answer to one
/// of its own.
fn answer_pings(port: NonZeroU16, times: usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", port.get())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let pong = b"\0\0\x08\x06\x01\0\0\0\0nobody's".repeat(times);
    let ping = b"\0\0\x08\x06\0\0\0\0\0the last";
    stream.write_all(&[&settings[..], &pong, ping].concat()).unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"the last") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
}

/// Bound: one line in ten seconds, with the number of suppressed ones.
#[test]
fn what_a_client_makes_a_library_warn_of_does_not_fill_the_log() {
    let proxy = Running::start(Duration::ZERO);
    let warned = |lines: Vec<String>| {
        lines.into_iter().filter(|line| line.contains("PING ack that we never sent")).count()
    };
    let begun = Instant::now();
    for _ in 0..5 {
        answer_pings(proxy.listener, 500);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    std::thread::sleep(Duration::from_secs(11).saturating_sub(begun.elapsed()));
    assert_eq!(warned(proxy.lines.try_iter().collect()), 1);
    answer_pings(proxy.listener, 1);
    let mut after = Vec::new();
    while !after.last().is_some_and(|line: &String| line.contains("library warnings suppressed")) {
        after.push(proxy.lines.recv_timeout(LONG).unwrap());
    }
    assert!(after.last().unwrap().contains("library=\"h2::"), "{after:?}");
    assert!(after.last().unwrap().contains("left_out=2499"), "{after:?}");
    assert_eq!(warned(after), 1);
}
