//! Redirection of a pod's TCP connections to the sidecar.
//!
//! | connection | what happens |
//! |---|---|
//! | from outside, any port | redirected to the inbound port; netfilter keeps its original destination |
//! | from outside, to the inbound port, the admin port or a skipped port | not redirected |
//! | through the loopback device: to 127.0.0.1, `::1` and the pod's own addresses | not redirected |
//! | the sidecar's own, by its user | not redirected |
//! | from the pod to the canary, by any user | redirected to the outbound port |
//! | from the pod to link-local addresses, DNS, a skipped port or network | not redirected |
//! | from the pod to elsewhere | redirected to the outbound port |
//!
//! Without an outbound port nothing from the pod is redirected. A pod that calls its own Service then
//! leaves through its interface and comes back from the node, so it is redirected like any client, and
//! is decided on by the node's address.
//!
//! The canary proves capture: the sidecar calls it, and only these rules lead the call back to the
//! sidecar. It is part of the transaction of the other rules.
//!
//! The rules are one nft table that is replaced in one transaction, for IPv4 and IPv6; or chains in
//! iptables' `nat` table, one transaction per family. They are read back after writing: the kernel's
//! state counts, not the tool's exit code.

mod cause;
mod iptables;
mod nft;
mod rules;
mod settings;
mod tool;

pub use settings::{Mode, OutboundRedirect, RedirectConfig, Task};

use iptables::Iptables;
use rules::{Rules, RulesState};
use std::fmt;
use tool::ToolError;

/// Error of redirecting the pod's connections.
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    /// No tool could write, read or remove the rules.
    #[error("{what}; likely cause: {cause}. Errors: {failures}")]
    Unusable {
        /// The operation that failed.
        what: &'static str,
        /// The tools' errors.
        failures: String,
        /// The likely cause and its remedy.
        cause: String,
    },
    /// The rules in the kernel differ from the expected ones.
    #[error("the rules read with {tool} are not as expected: {difference}")]
    Differs {
        /// The tool that read them.
        tool: &'static str,
        /// The first difference.
        difference: String,
    },
    /// There are no rules.
    #[error("the pod's connections are not redirected: no rules of Portcullis were found")]
    Absent,
}

/// Summary of the result, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary(String);

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool that can write rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Nft,
    Iptables(Iptables),
}

impl Backend {
    /// All tools, in order of preference.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Nft, Self::Iptables(Iptables::Default)];
        if !iptables::is_legacy() {
            all.push(Self::Iptables(Iptables::Legacy));
        }
        all
    }

    /// The tools that `mode` permits, in order of preference.
    fn of(mode: Mode) -> Vec<Self> {
        let mut permitted = Self::all();
        permitted.retain(|backend| match (mode, backend) {
            (Mode::Auto, _) | (Mode::Nft, Self::Nft) | (Mode::Iptables, Self::Iptables(_)) => true,
            (Mode::Nft, Self::Iptables(_)) | (Mode::Iptables, Self::Nft) => false,
        });
        permitted
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Iptables(iptables) => iptables.name(),
        }
    }

    fn apply(self, rules: &Rules) -> Result<(), ToolError> {
        match self {
            Self::Nft => nft::apply(rules),
            Self::Iptables(iptables) => iptables.apply(rules),
        }
    }

    fn state(self, rules: &Rules) -> Result<RulesState, ToolError> {
        match self {
            Self::Nft => nft::state(rules),
            Self::Iptables(iptables) => iptables.state(rules),
        }
    }

    fn undo(self) -> Result<(), ToolError> {
        match self {
            Self::Nft => nft::undo(),
            Self::Iptables(iptables) => iptables.undo(),
        }
    }
}

/// Writes, checks or removes the rules in this process' network namespace.
///
/// # Errors
/// [`RedirectError`]: afterwards the pod's connections may not be redirected, and it must not start.
pub fn run(config: &RedirectConfig) -> Result<Summary, RedirectError> {
    let rules = Rules::of(config);
    match config.task {
        Task::Apply => apply(&rules, config.mode),
        Task::Check => check(&rules, config.mode),
        Task::Undo => undo(&rules, config.mode),
    }
}

fn apply(rules: &Rules, mode: Mode) -> Result<Summary, RedirectError> {
    let mut failures = Vec::new();
    for backend in Backend::of(mode) {
        match backend.apply(rules).and_then(|()| backend.state(rules)) {
            Ok(RulesState::Same) => {
                replace_others(backend, rules)?;
                return Ok(Summary(format!("{rules}, written with {}", backend.name())));
            }
            Ok(RulesState::Absent) => return Err(RedirectError::Absent),
            Ok(RulesState::Differs(difference)) => {
                return Err(RedirectError::Differs { tool: backend.name(), difference });
            }
            Err(failure) => failures.push(failure),
        }
    }
    Err(unusable("the pod's connections cannot be redirected", &failures))
}

/// Removes rules that an earlier run wrote with another tool, which might take precedence. Rules
/// that cannot be read were not written by it either.
fn replace_others(written: Backend, rules: &Rules) -> Result<(), RedirectError> {
    for backend in Backend::all().into_iter().filter(|other| *other != written) {
        if matches!(backend.state(rules), Ok(RulesState::Same | RulesState::Differs(_))) {
            let what = "the rules of an earlier run cannot be removed";
            backend.undo().map_err(|failure| unusable(what, &[failure]))?;
        }
    }
    Ok(())
}

fn check(rules: &Rules, mode: Mode) -> Result<Summary, RedirectError> {
    let (mut failures, mut differs, mut read) = (Vec::new(), None, false);
    for backend in Backend::of(mode) {
        match backend.state(rules) {
            Ok(RulesState::Same) => {
                return Ok(Summary(format!("{rules}, as read with {}", backend.name())));
            }
            Ok(RulesState::Absent) => read = true,
            Ok(RulesState::Differs(difference)) => {
                let error = RedirectError::Differs { tool: backend.name(), difference };
                differs.get_or_insert(error);
            }
            Err(failure) => failures.push(failure),
        }
    }
    match differs {
        Some(differs) => Err(differs),
        None if read => Err(RedirectError::Absent),
        None => Err(unusable("the rules cannot be read", &failures)),
    }
}

fn undo(rules: &Rules, mode: Mode) -> Result<Summary, RedirectError> {
    let what = "the rules cannot be removed";
    let (mut failures, mut removed) = (Vec::new(), Vec::new());
    let mut read = false;
    for backend in Backend::of(mode) {
        match backend.state(rules) {
            Ok(RulesState::Absent) => read = true,
            Ok(RulesState::Same | RulesState::Differs(_)) => {
                backend.undo().map_err(|failure| unusable(what, &[failure]))?;
                removed.push(backend.name());
            }
            Err(failure) => failures.push(failure),
        }
    }
    match (removed.as_slice(), read) {
        ([], true) => Ok(Summary("nothing is redirected; there were no rules".to_owned())),
        ([], false) => Err(unusable(what, &failures)),
        (removed, _) => {
            Ok(Summary(format!("nothing is redirected; removed with {}", removed.join(", "))))
        }
    }
}

fn unusable(what: &'static str, failures: &[ToolError]) -> RedirectError {
    let cause = cause::likely(failures, &cause::Process::current());
    let failures: Vec<String> = failures.iter().map(ToolError::to_string).collect();
    RedirectError::Unusable { what, failures: failures.join("; "), cause }
}
