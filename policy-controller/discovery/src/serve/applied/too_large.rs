//! Policies that are too large for a message.

use policy_core::ServerPolicy;
use policy_engine::contributions::NamespaceContribution;
use policy_proto::{Fallback, Part, Unsupported};
use std::fmt;

/// The hash by which a policy is counted that is in force without the contributions for which there was no
/// room. `content`: the hash of the whole policy, which is 0 if nothing is counted.
pub(crate) fn cut(content: u64) -> u64 {
    /// Any number, so that the hash is not that of the whole policy.
    const MARK: u64 = 0x6375_7420_706f_7274;
    if content == 0 { 0 } else { content ^ MARK }
}

/// The size of a policy that exceeds the bound of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooLarge {
    /// Its bytes.
    pub(crate) size: usize,
    /// The most bytes.
    pub(crate) limit: usize,
    /// The thing that may have as many, in words.
    pub(crate) of: &'static str,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, limit, of } = self;
        write!(f, "{size} bytes, of {limit} that {of}")
    }
}

impl TooLarge {
    /// The replacement of the port, where not even the part of its owner fits.
    pub(crate) fn denial(&self) -> Unsupported {
        let message = format!("{self}: the port is denied");
        Unsupported { part: Part::Port, fallback: Fallback::Denied, message }
    }

    /// Says in the log what is denied.
    pub(crate) fn log(&self, policy: &ServerPolicy, lacking: &[NamespaceContribution]) {
        let owner = &policy.owner;
        if lacking.is_empty() {
            tracing::warn!(?owner, "policy of {self}: sent as a denial");
        }
        for one in lacking {
            tracing::warn!(?owner, "policy of {self}: the paths of {one} are denied");
        }
    }
}
