//! Diagnosis of rules that cannot be set.

use super::tool::ToolError;

/// Capabilities of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    /// True if it has the capability NET_ADMIN; absent if that cannot be read.
    net_admin: Option<bool>,
}

impl Process {
    pub(super) fn current() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { net_admin: net_admin(&status) }
    }
}

/// Reads NET_ADMIN from the effective capabilities in `/proc/self/status` (proc(5),
/// capabilities(7)).
fn net_admin(status: &str) -> Option<bool> {
    const NET_ADMIN: u64 = 1 << 12;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(capabilities & NET_ADMIN != 0)
}

/// Returns the likely cause and its remedy, for readers of `kubectl describe pod`.
pub(super) fn likely(failures: &[ToolError], process: &Process) -> String {
    if process.net_admin == Some(false) {
        return NO_CAPABILITY.to_owned();
    }
    let missing = |failure: &ToolError| matches!(failure, ToolError::Missing(_));
    if failures.iter().all(missing) {
        return NOT_INSTALLED.to_owned();
    }
    let said = |part: &str| {
        let refused = |failure: &ToolError| matches!(failure, ToolError::Refused(_, text) if text.contains(part));
        failures.iter().any(refused)
    };
    if said("not permitted") || said("Permission denied") {
        return FORBIDDEN.to_owned();
    }
    if said("Read-only file system") || said("lock") {
        return LOCK.to_owned();
    }
    KERNEL.to_owned()
}

const NO_CAPABILITY: &str = "this container does not have the capability NET_ADMIN. It must run as user \
0 with NET_ADMIN and NET_RAW added. Namespaces that enforce the Pod Security levels `baseline` or \
`restricted`, and policy engines that drop capabilities, do not permit that: such a namespace needs \
the label pod-security.kubernetes.io/enforce=privileged to hold injected pods";
const NOT_INSTALLED: &str =
    "this image has neither nft nor iptables; use Portcullis' own init image, which holds both";
const FORBIDDEN: &str = "the capability NET_ADMIN is there, but the node's seccomp profile, security \
module or sandboxed runtime forbids netfilter to this container";
const LOCK: &str = "iptables cannot take its lock; XTABLES_LOCKFILE must name a file in a folder that \
this container can write to";
const KERNEL: &str = "the node's kernel offers neither nf_tables nor iptables with nat and REDIRECT; \
load the modules nf_tables, nft_chain_nat and nft_redir (or iptable_nat, ip6table_nat and xt_REDIRECT), \
and for the pod's own connections nft_fib_inet (or xt_addrtype), on the node";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Vec<ToolError> {
        vec![ToolError::Missing("nft".into()), ToolError::Refused("iptables".into(), text.into())]
    }

    #[test]
    fn each_cause_is_told_from_the_others() {
        let with = Process { net_admin: Some(true) };
        let without = Process { net_admin: Some(false) };
        let denied = refused("Could not fetch rule set generation id: Permission denied");
        assert_eq!(likely(&denied, &without), NO_CAPABILITY);
        assert_eq!(likely(&denied, &with), FORBIDDEN);
        assert_eq!(likely(&denied, &Process { net_admin: None }), FORBIDDEN);
        assert_eq!(likely(&[ToolError::Missing("nft".into())], &with), NOT_INSTALLED);
        assert_eq!(likely(&refused("Protocol not supported"), &with), KERNEL);
        let lock = refused("Fatal: can't open lock file /run/xtables.lock: Read-only file system");
        assert_eq!(likely(&lock, &with), LOCK);
    }

    #[test]
    fn the_capability_is_read_from_the_effective_set() {
        assert_eq!(net_admin("CapPrm:\t0000000000000000\nCapEff:\t0000000000003000\n"), Some(true));
        assert_eq!(
            net_admin("CapPrm:\t0000000000001000\nCapEff:\t0000000000002000\n"),
            Some(false)
        );
        assert_eq!(net_admin("Name:\tx\n"), None);
    }
}
