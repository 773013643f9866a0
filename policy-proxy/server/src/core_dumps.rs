//! Core dumps, which would hold keys.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Forbids core dumps of this process, and to read its memory without CAP_SYS_PTRACE: it holds private
/// keys. A limit of their size would not do, because a handler that `core_pattern` names ignores it.
pub fn forbid_core_dumps() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "cannot forbid core dumps, which would hold private keys");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn a_process_that_holds_keys_cannot_be_dumped() {
        forbid_core_dumps();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() > 0, "metrics read their own");
    }
}
