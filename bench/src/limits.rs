//! Limits of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of descriptors that this process and its children may have to what the system
/// lets it have, and says how many that is.
pub fn many_descriptors() -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
