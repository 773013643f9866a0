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
struct Known {
    line: Box<str>,
    /// How many of its bytes, from the first, are the canonical host. A port may follow.
    host: usize,
}

/// What a thread remembers.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: Vec<Known>,
    /// Whose place the next one takes.
    next: usize,
}

thread_local! {
    static HOSTS: RefCell<Hosts> = RefCell::default();
}

/// Runs `act` with what this thread remembers, which `act` must not ask for again.
pub(super) fn with<T>(act: impl FnOnce(&mut Hosts) -> T) -> T {
    HOSTS.with_borrow_mut(act)
}

/// The one `Host` line of an HTTP/1 request whose target names no host.
pub(super) fn alone(head: &Parts) -> Option<&HeaderValue> {
    if head.version >= Version::HTTP_2 || head.uri.authority().is_some() {
        return None;
    }
    let mut lines = head.headers.get_all(HOST).iter();
    lines.next().filter(|_| lines.next().is_none())
}

impl Hosts {
    /// The canonical host of `line`, if that is remembered.
    pub(super) fn find(&self, line: &HeaderValue) -> Option<&str> {
        let same = |known: &&Known| known.line.as_bytes() == line.as_bytes();
        let known = self.known.iter().find(same)?;
        known.line.get(..known.host)
    }

    /// Remembers that `line` is forwarded as it stands and that its canonical host is `host`.
    pub(super) fn learn(&mut self, line: &HeaderValue, host: &str) {
        // A copy, since the line keeps the whole head.
        let Ok(line) = line.to_str().map(Box::<str>::from) else { return };
        if line.len() > LONGEST || !line.starts_with(host) {
            return;
        }
        let known = Known { host: host.len(), line };
        match self.known.get_mut(self.next) {
            Some(place) => *place = known,
            None => self.known.push(known),
        }
        self.next = self.next.wrapping_add(1) % MOST;
    }
}

/// Hosts that are remembered: a Service has a few names.
const MOST: usize = 4;
/// Longer lines are not worth their room.
const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn the_latest_hosts_are_known_by_the_whole_line_and_older_ones_are_not() {
        let line = |text: &str| HeaderValue::from_str(text).unwrap();
        let mut hosts = Hosts::default();
        let names: Vec<String> = (0..=MOST).map(|n| format!("web-{n}.example")).collect();
        for name in &names {
            assert_eq!(hosts.find(&line(name)), None);
            hosts.learn(&line(&format!("{name}:8080")), name);
        }
        for (number, name) in names.iter().enumerate() {
            let known = (number > 0).then_some(name.as_str());
            assert_eq!(hosts.find(&line(&format!("{name}:8080"))), known);
            assert_eq!(hosts.find(&line(name)), None, "another line");
            assert_eq!(hosts.find(&line(&format!("{name}:8081"))), None, "another line");
        }
        let long = "a".repeat(LONGEST + 1);
        hosts.learn(&line(&long), &long);
        assert_eq!(hosts.find(&line(&long)), None);
    }

    #[test]
    fn only_the_one_line_that_alone_names_the_host_is_looked_for() {
        let request = || Request::get("/").header(HOST, "a");
        let alone = |request: http::request::Builder| {
            let (head, ()) = request.body(()).unwrap().into_parts();
            super::alone(&head).cloned()
        };
        assert_eq!(alone(request()), Some(HeaderValue::from_static("a")));
        assert_eq!(alone(request().header(HOST, "a")), None, "two");
        assert_eq!(alone(request().uri("http://a/")), None, "the target names one");
        assert_eq!(alone(request().version(Version::HTTP_2)), None);
        assert_eq!(alone(Request::get("/")), None);
    }
}
