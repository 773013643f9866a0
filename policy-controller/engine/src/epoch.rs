//! Names of epochs: the uid of the Lease, and the number of times that resource versions were
//! renumbered since the Lease was created.
//!
//! Clients treat a name as opaque. Replicas compare two of them only for whether both belong to one
//! Lease.

use std::sync::Arc;

/// The name of the epoch that the Lease `uid` names while its counter is `counter`.
pub fn name(uid: &str, counter: u64) -> Arc<str> {
    match counter {
        0 => uid.into(),
        counter => format!("{uid}.{counter}").into(),
    }
}

/// True if one Lease names both epochs, whatever its counter was.
pub fn of_one_lease(one: &str, other: &str) -> bool {
    without_counter(one) == without_counter(other)
}

fn without_counter(epoch: &str) -> &str {
    match epoch.rsplit_once('.') {
        Some((uid, counter)) if counter.bytes().all(|byte| byte.is_ascii_digit()) => uid,
        Some(_) | None => epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_does_not_make_another_lease() {
        let epochs = [0, 1, 2, 10].map(|counter| name("8f-1", counter));
        assert_eq!(
            epochs.each_ref().map(|epoch| &**epoch),
            ["8f-1", "8f-1.1", "8f-1.2", "8f-1.10"]
        );
        for (one, other) in epochs.iter().zip(epochs.iter().rev()) {
            assert!(of_one_lease(one, other), "{one} {other}");
            assert!(!of_one_lease(one, "8f-2") && !of_one_lease("directory-1.x", one), "{one}");
        }
    }
}
