//! Requirements of a test that this machine may not meet.

use anyhow::Result;
use policy_testkit::skip;

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

/// Reason why something that several tests share is not there.
#[derive(Debug)]
pub(super) enum Absent {
    /// This machine lacks a requirement.
    Missing(String),
    /// It was started, and failed.
    Failed(String),
}

impl From<anyhow::Error> for Absent {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<Missing>() {
            Some(missing) => Self::Missing(missing.to_string()),
            None => Self::Failed(format!("{error:?}")),
        }
    }
}

/// Returns what tests share; absent: the test is to return, it has been counted as skipped. Each test
/// fails with the reason for which the start failed: it is not tried again, which would take a minute
/// for each of them.
pub(super) fn shared_or_skip<T>(started: &Result<T, Absent>) -> Option<&T> {
    match started {
        Ok(shared) => Some(shared),
        Err(Absent::Missing(missing)) => {
            skip(missing);
            None
        }
        Err(Absent::Failed(why)) => panic!("{CANNOT}: {why}"),
    }
}

const CANNOT: &str = "what a test needs cannot be had";

/// Returns a test's requirement, or the reason why it is missing.
pub(super) fn available<T>(started: Result<T>) -> Result<T, String> {
    started.map_err(|error| match error.downcast_ref::<Missing>() {
        Some(missing) => missing.to_string(),
        None => fail(&error),
    })
}

pub(super) fn fail(error: &anyhow::Error) -> ! {
    panic!("{CANNOT}: {error:?}")
}
