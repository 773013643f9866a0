//! Cache of recent `Host` values that are forwarded unchanged. Nearly all requests name one of few
//! hosts, and canonicalising a host costs a tenth of reading it.
//!
//! The cache holds the meaning of a text, which no policy changes, never a decision.

use http::Version;
use http::header::{HOST, HeaderValue};
use http::request::Parts;
use std::cell::RefCell;

/// A `Host` line that is canonical.
#[derive(Debug)]
struct CachedHost {
    line: Box<str>,
    /// Length of the canonical host at the start of the line. A port may follow.
    host: usize,
}

/// The host cache of a thread.
#[derive(Debug, Default)]
pub(super) struct HostCache {
    cached: Vec<CachedHost>,
    /// Index of the next entry to replace.
    next: usize,
}

thread_local! {
    static HOSTS: RefCell<HostCache> = RefCell::default();
}

/// Runs `act` with this thread's cache. `act` must not call this function.
pub(super) fn with<T>(act: impl FnOnce(&mut HostCache) -> T) -> T {
    HOSTS.with_borrow_mut(act)
}

/// Returns the only `Host` line of an HTTP/1 request whose target names no host.
pub(super) fn sole_host(head: &Parts) -> Option<&HeaderValue> {
    if head.version >= Version::HTTP_2 || head.uri.authority().is_some() {
        return None;
    }
    let mut lines = head.headers.get_all(HOST).iter();
    lines.next().filter(|_| lines.next().is_none())
}

impl HostCache {
    /// Returns the canonical host of `line`, if it is cached.
    pub(super) fn find(&self, line: &HeaderValue) -> Option<&str> {
        let same = |cached: &&CachedHost| cached.line.as_bytes() == line.as_bytes();
        let cached = self.cached.iter().find(same)?;
        cached.line.get(..cached.host)
    }

    /// Caches `line`, which is forwarded unchanged and whose canonical host is `host`.
    pub(super) fn insert(&mut self, line: &HeaderValue, host: &str) {
        // A copy, because the line keeps the whole head alive.
        let Ok(line) = line.to_str().map(Box::<str>::from) else { return };
        if line.len() > MAX_LINE || !line.starts_with(host) {
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

/// Number of cached hosts: a Service has few names.
const MAX_HOSTS: usize = 4;
/// Maximum length of a cached line.
const MAX_LINE: usize = 128;

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
        let long = "a".repeat(MAX_LINE + 1);
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
