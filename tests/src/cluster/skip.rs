//! Requirements of a test that this machine may not meet.

use anyhow::Result;

/// Requirement of a control plane that this machine does not meet.
#[derive(Debug)]
pub struct Missing(String);

impl Missing {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// Returns a test's requirement, or the reason why it is missing.
pub(super) fn available<T>(started: Result<T>) -> Result<T, String> {
    started.map_err(|error| match error.downcast_ref::<Missing>() {
        Some(missing) => missing.to_string(),
        None => fail(&error),
    })
}

pub(super) fn fail(error: &anyhow::Error) -> ! {
    panic!("what a test needs cannot be had: {error:?}")
}
