//! Hosts that requests named lately and that are forwarded as they were sent. Nearly all requests name
//! one of few, and to find a host costs a tenth of reading it.
//!
//! What is remembered is what a text means whatever the policy is, never a decision.

use http::Version;
use http::header::{HOST, HeaderValue};
use http::request::Parts;
use std::cell::RefCell;

/// A `Host` line that is canonical as it stands.
#[derive(Debug)]
struct CachedHost {
    line: Box<str>,
    /// How many of its bytes, from the first, are the canonical host. A port may follow.
    host: usize,
}

/// What a thread remembers.
#[derive(Debug, Default)]
pub(super) struct HostCache {
    cached: Vec<CachedHost>,
    /// Whose place the next one takes.
    next: usize,
}

thread_local! {
    static HOSTS: RefCell<HostCache> = RefCell::default();
}

/// Runs `act` with what this thread remembers, which `act` must not ask for again.
pub(super) fn with<T>(act: impl FnOnce(&mut HostCache) -> T) -> T {
    HOSTS.with_borrow_mut(act)
}

/// The one `Host` line of an HTTP/1 request whose target names no host.
pub(super) fn sole_host(head: &Parts) -> Option<&HeaderValue> {
    if head.version >= Version::HTTP_2 || head.uri.authority().is_some() {
        return None;
    }
    let mut lines = head.headers.get_all(HOST).iter();
    lines.next().filter(|_| lines.next().is_none())
}

impl HostCache {
    /// The canonical host of `line`, if that is remembered.
    pub(super) fn find(&self, line: &HeaderValue) -> Option<&str> {
        let same = |cached: &&CachedHost| cached.line.as_bytes() == line.as_bytes();
        let cached = self.cached.iter().find(same)?;
        cached.line.get(..cached.host)
    }

    /// Remembers that `line` is forwarded as it stands and that its canonical host is `host`.
    pub(super) fn insert(&mut self, line: &HeaderValue, host: &str) {
        // A copy, since the line keeps the whole head.
        let Ok(line) = line.to_str().map(Box::<str>::from) else { return };
        if line.len() > LONGEST || !line.starts_with(host) {
            return;
        }
        let cached = CachedHost { host: host.len(), line };
        match self.cached.get_mut(self.next) {
            Some(place) => *place = cached,
            None => self.cached.push(cached),
        }
        self.next = self.next.wrapping_add(1) % MAX_HOSTS;
    }
}

/// Hosts that are remembered: a Service has a few names.
const MAX_HOSTS: usize = 4;
/// Longer lines are not worth their room.
const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn the_latest_hosts_are_known_by_the_whole_line_and_older_ones_are_not() {
        let line = |text: &str| HeaderValue::from_str(text).unwrap();
        let mut hosts = HostCache::default();
        let names: Vec<String> = (0..=MAX_HOSTS).map(|n| format!("web-{n}.example")).collect();
        for name in &names {
            assert_eq!(hosts.find(&line(name)), None);
            hosts.insert(&line(&format!("{name}:8080")), name);
        }
        for (number, name) in names.iter().enumerate() {
            let cached = (number > 0).then_some(name.as_str());
            assert_eq!(hosts.find(&line(&format!("{name}:8080"))), cached);
            assert_eq!(hosts.find(&line(name)), None, "another line");
            assert_eq!(hosts.find(&line(&format!("{name}:8081"))), None, "another line");
        }
        let long = "a".repeat(LONGEST + 1);
        hosts.insert(&line(&long), &long);
        assert_eq!(hosts.find(&line(&long)), None);
    }

    #[test]
    fn only_the_one_line_that_alone_names_the_host_is_looked_for() {
        let request = || Request::get("/").header(HOST, "a");
        let sole_host = |request: http::request::Builder| {
            let (head, ()) = request.body(()).unwrap().into_parts();
            super::sole_host(&head).cloned()
        };
        assert_eq!(sole_host(request()), Some(HeaderValue::from_static("a")));
        assert_eq!(sole_host(request().header(HOST, "a")), None, "two");
        assert_eq!(sole_host(request().uri("http://a/")), None, "the target names one");
        assert_eq!(sole_host(request().version(Version::HTTP_2)), None);
        assert_eq!(sole_host(Request::get("/")), None);
    }
}
