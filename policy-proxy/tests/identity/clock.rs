//! The binary under wrong clocks, and clocks that are set while it runs (`faketime`).

use crate::support::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The library that `faketime` preloads; absent: it is not installed.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let within = folders.map(|folder| folder.path().join("faketime"));
    let places = within.chain(["/usr/local/lib/faketime".into(), "/usr/lib/faketime".into()]);
    places.map(|folder| folder.join("libfaketimeMT.so.1")).find(|library| library.is_file())
}

/// A proxy whose clock is set by a file; killed on drop.
struct Proxy {
    child: Child,
    folder: TempDir,
    admin: u16,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts a proxy whose clock is off by `hours`.
    fn start(library: &Path, authority: &Authority, issuer: &Issuer, hours: i64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("token"), "a token").unwrap();
        std::fs::write(path("roots"), authority.pem()).unwrap();
        std::fs::write(path("clock"), format!("{hours:+}h")).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let admin = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_policy-proxy"))
            .env_clear()
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", path("clock"))
            .env("FAKETIME_NO_CACHE", "1")
            // Only the wall clock is set; the monotonic clock runs on.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .args(["run", "--identity", "certify", "--identity-name", NAME, "--workload", "ns:web"])
            .args(["--identity-addr", &issuer.address.to_string()])
            .args(["--identity-token", &path("token"), "--identity-roots", &path("roots")])
            .args(["--identity-min-refresh", "1s", "--identity-backoff-max", "1s"])
            .args(["--policy-addr", "127.0.0.1:1", "--admin", &format!("127.0.0.1:{admin}")])
            .args(["--forward", "127.0.0.1:0,80,127.0.0.1:1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, folder, admin }
    }

    fn set_clock(&self, hours: i64) {
        // Replaced atomically, so that it is never read half written.
        let (new, path) = (self.folder.path().join("new"), self.folder.path().join("clock"));
        std::fs::write(&new, format!("{hours:+}h")).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The state of the identity at `/ready`; `None`: it is ready.
    fn missing(&self) -> std::io::Result<Option<String>> {
        let answer = self.get("/ready")?;
        let line = answer.lines().find_map(|line| line.trim().strip_prefix("identity: "));
        Ok(line.map(str::to_owned))
    }

    fn until(&self, what: &str, holds: impl Fn(Option<&str>) -> bool) {
        let begun = Instant::now();
        loop {
            let missing = self.missing();
            if missing.as_ref().is_ok_and(|missing| holds(missing.as_deref())) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {what}; at last {missing:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn until_missing(&self, words: &str) {
        self.until(words, |missing| missing.is_some_and(|missing| missing.contains(words)));
    }

    fn until_ready(&self) {
        self.until("an identity", |missing| missing.is_none());
    }
}

/// Starts an issuer whose clock is off by the number of hours; its certificates last one hour.
fn issuer(authority: &Arc<Authority>) -> (Issuer, Arc<AtomicI64>) {
    let (own, hours) = (authority.clone(), Arc::new(AtomicI64::new(0)));
    let clock = hours.clone();
    let (told, issuer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let issuer = Issuer::plain(move |request| {
                let now = clock.load(Ordering::SeqCst) * 3600;
                Ok(own.answer(request, |params| lasting(params, now - 60, now + 3600)))
            });
            told.send(issuer.await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    (issuer.recv().unwrap(), hours)
}

fn library() -> Option<PathBuf> {
    let library = faketime();
    if library.is_none() {
        policy_testkit::skip("faketime");
    }
    library
}

#[test]
fn a_clock_that_is_wrong_keeps_the_proxy_unready_and_is_told() {
    let Some(library) = library() else { return };
    let authority = Arc::new(Authority::new());
    let (issuer, _) = issuer(&authority);
    let proxy = Proxy::start(&library, &authority, &issuer, 5);
    proxy.until_missing("no certificate yet");
    proxy.until_missing("a certificate that expired at");
    proxy.until_missing("this clock or the issuer's is wrong");
    proxy.set_clock(-5);
    proxy.until_missing("a certificate that is not valid before");
    proxy.set_clock(0);
    proxy.until_ready();
    let metrics = proxy.get("/metrics").unwrap_or_default();
    assert!(!metrics.contains("identity_usable 0"), "{metrics}");
}

#[test]
fn a_certificate_expires_by_the_clock_and_is_renewed_by_it() {
    let Some(library) = library() else { return };
    let authority = Arc::new(Authority::new());
    let (issuer, hours) = issuer(&authority);
    let proxy = Proxy::start(&library, &authority, &issuer, 0);
    proxy.until_ready();
    let asked = issuer.asked().len();
    // The node's clock is ahead of the issuer's: no certificate is valid.
    proxy.set_clock(3);
    proxy.until_missing("the certificate expired at");
    proxy.until_missing("a certificate that expired at");
    assert!(issuer.asked().len() > asked, "it asked again");
    // Time has passed for both.
    hours.store(3, Ordering::SeqCst);
    proxy.until_ready();
    // The clock is set back: the certificate in force is not valid yet.
    proxy.set_clock(0);
    proxy.until_missing("the certificate is not valid before");
    hours.store(0, Ordering::SeqCst);
    proxy.until_ready();
}
