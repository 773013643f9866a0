//! The rules of redirection, independent of the tool that writes them.

use super::settings::RedirectConfig;
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

/// The rules of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The port that connections are redirected to.
    pub(super) inbound: NonZeroU16,
    /// The user whose connections are not redirected.
    pub(super) user: NonZeroU32,
    /// Ports that are not redirected, with the sidecar's own. Sorted, not adjacent, never empty.
    pub(super) excluded: Vec<Ports>,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) first: u16,
    pub(super) last: u16,
}

/// State of the rules in the kernel, compared with the expected ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RulesState {
    Same,
    Absent,
    /// The first difference.
    Differs(String),
}

impl Ports {
    /// Formats the range with `separator`, or the single port.
    pub(super) fn to_text(self, separator: char) -> String {
        let Self { first, last } = self;
        if first == last { first.to_string() } else { format!("{first}{separator}{last}") }
    }
}

impl Rules {
    pub(super) fn of(config: &RedirectConfig) -> Self {
        let mut ports = config.skipped.clone();
        ports.extend([config.inbound, config.admin]);
        let mut excluded: Vec<Ports> = Vec::new();
        for port in ports.iter().map(|port| port.get()) {
            match excluded.last_mut() {
                Some(range) if range.last.checked_add(1) == Some(port) => range.last = port,
                Some(_) | None => excluded.push(Ports { first: port, last: port }),
            }
        }
        Self { inbound: config.inbound, user: config.user, excluded }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.excluded.iter().map(|ports| ports.to_text('-')).collect();
        write!(
            f,
            "inbound TCP is redirected to port {}, except to ports {}",
            self.inbound,
            ports.join(",")
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::redirect::settings::{Mode, Task};

    /// Rules for these ports.
    pub(in crate::redirect) fn rules(inbound: u16, admin: u16, skipped: &[u16]) -> Rules {
        let port = |port| NonZeroU16::new(port).unwrap();
        Rules::of(&RedirectConfig {
            inbound: port(inbound),
            admin: port(admin),
            user: NonZeroU32::new(2102).unwrap(),
            skipped: skipped.iter().map(|skipped| port(*skipped)).collect(),
            mode: Mode::Auto,
            task: Task::Apply,
        })
    }

    #[test]
    fn ports_that_touch_are_one_range_and_the_sidecars_own_are_left_alone() {
        let shown = |rules: Rules| rules.to_string();
        assert_eq!(
            shown(rules(4143, 4191, &[8002, 8000, 8001, 22, 65535, 4191])),
            "inbound TCP is redirected to port 4143, except to ports 22,4143,4191,8000-8002,65535"
        );
        let all: Vec<u16> = (1..=u16::MAX).collect();
        assert_eq!(rules(4143, 4191, &all).excluded, [Ports { first: 1, last: 65535 }]);
    }
}
