//! The times since which a route is attached to a Server with its hostnames, as a condition of its status
//! records them. A schema of the Gateway API has no field for them.

use super::host::pattern;
use jiff::Timestamp;
use policy_core::HostPattern;
use std::collections::BTreeMap;

/// The type of the condition.
pub const HOSTNAMES_ATTACHED: &str = "HostnamesAttached";

/// The most hostnames of a route (Gateway API, `hostnames`).
const MAX_HOSTNAMES: usize = 16;

/// The time since which each hostname is attached, in seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentTimes(BTreeMap<HostPattern, i64>);

impl AttachmentTimes {
    /// Reads the message of the condition. A part that cannot be read counts as if it were not there.
    pub fn read(message: &str) -> Self {
        let parts = message.split("; ").take(MAX_HOSTNAMES);
        let read = |part: &str| {
            let (host, time) = part.split_once(" since ")?;
            let time = time.parse::<Timestamp>().ok()?;
            Some((pattern(host).ok()?, time.as_second()))
        };
        Self(parts.filter_map(read).collect())
    }

    /// The message of the condition.
    pub fn message(&self) -> String {
        let part = |(host, time): (&HostPattern, &i64)| {
            let time = Timestamp::from_second(*time).ok()?;
            Some(format!("{host} since {}", time.strftime("%Y-%m-%dT%H:%M:%SZ")))
        };
        let parts: Vec<String> = self.0.iter().filter_map(part).collect();
        parts.join("; ")
    }

    /// The time of a hostname.
    pub fn of(&self, host: &HostPattern) -> Option<i64> {
        self.0.get(host).copied()
    }

    /// Every hostname with its time.
    pub fn iter(&self) -> impl Iterator<Item = (&HostPattern, i64)> {
        self.0.iter().map(|(host, time)| (host, *time))
    }

    /// True if no hostname has a time.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(HostPattern, i64)> for AttachmentTimes {
    fn from_iter<T: IntoIterator<Item = (HostPattern, i64)>>(times: T) -> Self {
        Self(times.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_what_is_damaged_counts_as_absent() {
        let at = |host: &str, time| (HostPattern::parse(host), time);
        let times: AttachmentTimes =
            [at("a.example", 1_700_000_000), at("*.b.example", 1_700_000_060)]
                .into_iter()
                .collect();
        let message = times.message();
        assert_eq!(
            message,
            "a.example since 2023-11-14T22:13:20Z; *.b.example since 2023-11-14T22:14:20Z"
        );
        assert_eq!(AttachmentTimes::read(&message), times);
        let damaged = "a.example since soon; //x since 2023-11-14T22:13:20Z; \
                       *.b.example since 2023-11-14T22:14:20Z";
        let one: AttachmentTimes = [at("*.b.example", 1_700_000_060)].into_iter().collect();
        assert_eq!(AttachmentTimes::read(damaged), one);
        assert!(AttachmentTimes::read("").is_empty());
    }
}
