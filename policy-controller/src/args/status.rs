//! Flags of the status writer and of the Lease.

use clap::Args;
use policy_kube::lease::{LEASE_NAME, LeaseSettings};
use policy_kube::status::{CONTROLLER_NAME, StatusSettings};
use std::sync::Arc;
use std::time::Duration;

/// What Linkerd's controller is named, and its Lease. Ours only where that does not run.
const LINKERD_NAME: &str = "linkerd.io/policy-controller";
const LINKERD_LEASE: &str = "policy-controller-write";

/// Who writes status and how, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Status")]
pub struct StatusArgs {
    /// Name of this controller in the status of routes. Linkerd's own is
    /// linkerd.io/policy-controller: only where its policy container is switched off.
    #[arg(long, value_name = "DOMAIN/NAME", default_value = CONTROLLER_NAME)]
    pub controller_name: String,

    /// Linkerd's policy controller runs in the same cluster: write no status that it writes too or
    /// does not expect, only entries of our own on routes. Other objects are told by Events.
    #[arg(long)]
    pub beside_linkerd: bool,

    /// Name of the Lease, in the control plane's namespace, that decides which replica writes.
    /// Linkerd's own is policy-controller-write: only where its policy container is switched off.
    #[arg(long, value_name = "NAME", default_value = LEASE_NAME)]
    pub lease_name: String,

    /// For how long a leader that is silent is waited for, in seconds.
    // Below 3 s a renewal that takes a second would end leadership.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_duration: u64,

    /// How long one request to read or write a status may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    pub patch_timeout_ms: u64,

    /// Objects whose status is written per second.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub status_writes_per_second: u32,

    /// Objects whose status is written at the same time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub status_parallelism: u32,
}

/// Why a flag makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusArgsError {
    /// Not a name that can be used.
    #[error("--{flag}: `{value}` is not allowed; {allowed}")]
    Name {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl StatusArgs {
    /// What the flags mean. `namespaces`: those that are watched; absent: all.
    ///
    /// # Errors
    /// [`StatusArgsError`]: a name that the API server would refuse, or what is Linkerd's beside Linkerd.
    pub fn settings(
        &self,
        namespaces: Option<Vec<Arc<str>>>,
    ) -> Result<StatusSettings, StatusArgsError> {
        if !is_controller_name(&self.controller_name) {
            return Err(StatusArgsError::Name {
                flag: "controller-name",
                value: self.controller_name.clone(),
                allowed: "a domain, `/` and a path, at most 253 characters, \
                          for example portcullis.dev/policy-controller",
            });
        }
        if self.beside_linkerd && self.controller_name == LINKERD_NAME {
            return Err(StatusArgsError::Name {
                flag: "controller-name",
                value: self.controller_name.clone(),
                allowed: "a name of its own with --beside-linkerd",
            });
        }
        Ok(StatusSettings {
            controller_name: self.controller_name.as_str().into(),
            beside_linkerd: self.beside_linkerd,
            namespaces,
            timeout: Duration::from_millis(self.patch_timeout_ms),
            writes_per_second: self.status_writes_per_second,
            parallelism: usize::try_from(self.status_parallelism).unwrap_or(usize::MAX),
            ..StatusSettings::default()
        })
    }

    /// The Lease, in the control plane's namespace.
    ///
    /// # Errors
    /// [`StatusArgsError`], as [`StatusArgs::settings`].
    pub fn lease(&self, namespace: &str) -> Result<LeaseSettings, StatusArgsError> {
        let wrong = |allowed| StatusArgsError::Name {
            flag: "lease-name",
            value: self.lease_name.clone(),
            allowed,
        };
        if !is_object_name(&self.lease_name) {
            return Err(wrong("lower-case letters, digits, `-` and `.`, at most 253 characters"));
        }
        if self.beside_linkerd && self.lease_name == LINKERD_LEASE {
            return Err(wrong("a name of its own with --beside-linkerd"));
        }
        Ok(LeaseSettings {
            namespace: namespace.into(),
            name: self.lease_name.as_str().into(),
            duration: Duration::from_secs(self.lease_duration),
        })
    }
}

fn is_object_name(name: &str) -> bool {
    let label = |label: &str| {
        let mut bytes = label.bytes();
        bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// As the Gateway API's schema has it.
fn is_controller_name(name: &str) -> bool {
    let Some((domain, path)) = name.split_once('/') else { return false };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    name.len() <= 253 && is_object_name(domain) && !path.is_empty() && path.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        status: StatusArgs,
    }

    fn parsed(flags: &[&str]) -> StatusArgs {
        Line::try_parse_from(std::iter::once(&"x").chain(flags)).unwrap().status
    }

    fn refusal(flags: &[&str]) -> String {
        let args = match Line::try_parse_from(std::iter::once(&"x").chain(flags)) {
            Ok(line) => line.status,
            Err(error) => return error.to_string(),
        };
        let settings = args.settings(None).and_then(|_| args.lease("linkerd"));
        settings.unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_what_the_settings_have() {
        let args = parsed(&[]);
        assert_eq!(args.settings(None).unwrap(), StatusSettings::default());
        let lease = args.lease("portcullis").unwrap();
        assert_eq!((&*lease.namespace, &*lease.name), ("portcullis", LEASE_NAME));
        assert_eq!(lease.duration, Duration::from_secs(15));
        parsed(&["--controller-name=linkerd.io/policy-controller"]).settings(None).unwrap();
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        let refused = refusal(&["--lease-duration=1"]);
        assert!(
            refused.contains("'--lease-duration <SECONDS>': 1 is not in 3..=3600"),
            "{refused}"
        );
        let refused = refusal(&["--status-parallelism=0"]);
        assert!(refused.contains("'--status-parallelism <N>': 0 is not in 1..="), "{refused}");
        for name in ["portcullis", "a b/c", "A.dev/x", "a.dev/", "a..b/c"] {
            let flag = format!("--controller-name={name}");
            let refused = refusal(&[&flag]);
            assert!(refused.starts_with(&format!("--controller-name: `{name}`")), "{refused}");
        }
        assert!(refusal(&["--lease-name=Upper"]).starts_with("--lease-name: `Upper`"));
    }

    #[test]
    fn beside_linkerd_nothing_bears_its_names() {
        let name = "--controller-name=linkerd.io/policy-controller";
        assert!(refusal(&["--beside-linkerd", name]).contains("with --beside-linkerd"));
        let lease = "--lease-name=policy-controller-write";
        assert!(refusal(&["--beside-linkerd", lease]).contains("with --beside-linkerd"));
        let settings = parsed(&["--beside-linkerd"]).settings(None).unwrap();
        assert!(settings.beside_linkerd);
    }
}
