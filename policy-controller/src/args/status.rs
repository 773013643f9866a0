//! Flags of the status writer and of the Lease.

use super::error::ArgsError;
use super::value::{ParseResult, name};
use clap::Args;
use policy_crds::is_dns_name;
use policy_kube::lease::{LEASE_NAME, LeaseSettings};
use policy_kube::status::{CONTROLLER_NAME, StatusSettings};
use std::sync::Arc;
use std::time::Duration;

/// Names of Linkerd's controller and of its Lease. Ours only where that does not run.
const LINKERD_NAME: &str = "linkerd.io/policy-controller";
const LINKERD_LEASE: &str = "policy-controller-write";

/// Flags of status, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Status")]
pub struct StatusArgs {
    /// Name of this controller in the status of routes. Linkerd's own is
    /// linkerd.io/policy-controller: only where its policy container is switched off.
    #[arg(long, value_name = "DOMAIN/NAME", default_value = CONTROLLER_NAME, value_parser = controller_name)]
    pub controller_name: Arc<str>,

    /// Linkerd's policy controller runs in the same cluster: write no status that it writes too or
    /// does not expect, only entries of our own on routes. Other objects get Events.
    #[arg(long)]
    pub beside_linkerd: bool,

    /// Name of the Lease, in the control plane's namespace, that decides which replica writes.
    /// Linkerd's own is policy-controller-write: only where its policy container is switched off.
    #[arg(long, value_name = "NAME", default_value = LEASE_NAME, value_parser = name::<Arc<str>>)]
    pub lease_name: Arc<str>,

    /// Seconds after which a silent leader is replaced.
    // Below 3 s a renewal that takes a second would end leadership.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_duration: u64,

    /// Timeout of one request to read or write a status, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    pub patch_timeout_ms: u64,

    /// Objects whose status is written per second.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub status_writes_per_second: u32,

    /// Objects whose status is written at the same time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub status_parallelism: u32,
}

impl StatusArgs {
    /// Returns the settings. `namespaces`: those that are watched; absent: all.
    ///
    /// # Errors
    /// [`ArgsError::OfLinkerd`].
    pub fn settings(&self, namespaces: Option<Vec<Arc<str>>>) -> Result<StatusSettings, ArgsError> {
        Ok(StatusSettings {
            controller_name: self.own("controller-name", &self.controller_name, LINKERD_NAME)?,
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
    /// [`ArgsError::OfLinkerd`].
    pub fn lease(&self, namespace: &str) -> Result<LeaseSettings, ArgsError> {
        Ok(LeaseSettings {
            namespace: namespace.into(),
            name: self.own("lease-name", &self.lease_name, LINKERD_LEASE)?,
            duration: Duration::from_secs(self.lease_duration),
        })
    }

    /// A name that is not Linkerd's where that has it.
    fn own(
        &self,
        flag: &'static str,
        value: &Arc<str>,
        linkerds: &str,
    ) -> Result<Arc<str>, ArgsError> {
        match self.beside_linkerd && &**value == linkerds {
            true => Err(ArgsError::OfLinkerd { flag, value: value.clone() }),
            false => Ok(value.clone()),
        }
    }
}

/// Parses a controller name by the rules of the Gateway API's schema.
fn controller_name(value: &str) -> ParseResult<Arc<str>> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    let named = value.split_once('/').is_some_and(|(domain, path)| {
        is_dns_name(domain) && !path.is_empty() && path.bytes().all(allowed)
    });
    let expected = "expected a domain, `/` and a path, at most 253 characters, for example \
                    portcullis.dev/policy-controller";
    match named && value.len() <= 253 {
        true => Ok(value.into()),
        false => Err(expected.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn refusal(flags: &[&str]) -> String {
        let args: StatusArgs = match parsed(flags) {
            Ok(args) => args,
            Err(error) => return error,
        };
        let settings = args.settings(None).and_then(|_| args.lease("linkerd"));
        settings.unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_what_the_settings_have() {
        let args: StatusArgs = parsed(&[]).unwrap();
        assert_eq!(args.settings(None).unwrap(), StatusSettings::default());
        let lease = args.lease("portcullis").unwrap();
        assert_eq!((&*lease.namespace, &*lease.name), ("portcullis", LEASE_NAME));
        assert_eq!(lease.duration, Duration::from_secs(15));
        parsed::<StatusArgs>(&["--controller-name=linkerd.io/policy-controller"])
            .unwrap()
            .settings(None)
            .unwrap();
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
            let want = format!("'{name}' for '--controller-name <DOMAIN/NAME>': expected a domain");
            assert!(refused.contains(&want), "{refused}");
        }
        let refused = refusal(&["--lease-name=Upper"]);
        assert!(refused.contains("'Upper' for '--lease-name <NAME>': expected lower"), "{refused}");
    }

    #[test]
    fn beside_linkerd_nothing_bears_its_names() {
        let name = "--controller-name=linkerd.io/policy-controller";
        assert!(refusal(&["--beside-linkerd", name]).contains("with --beside-linkerd"));
        let lease = "--lease-name=policy-controller-write";
        assert!(refusal(&["--beside-linkerd", lease]).contains("with --beside-linkerd"));
        let settings = parsed::<StatusArgs>(&["--beside-linkerd"]).unwrap().settings(None).unwrap();
        assert!(settings.beside_linkerd);
    }
}
