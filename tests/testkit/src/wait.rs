//! Waiting for what nobody tells of, and never for ever.

use std::time::{Duration, Instant};

/// Most that anything may take that is waited for. Only a test that fails waits so long.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The pauses between two looks: short at first, for what comes at once, and not so short that looking
/// takes the time of what is waited for.
#[derive(Debug)]
struct Pauses {
    began: Instant,
    bound: Duration,
    next: Duration,
}

impl Pauses {
    const LONGEST: Duration = Duration::from_millis(100);

    fn within(bound: Duration) -> Self {
        Self { began: Instant::now(), bound, next: Duration::from_millis(5) }
    }

    /// Returns the pause before the next attempt.
    ///
    /// # Panics
    /// If the time is over.
    #[track_caller]
    fn next(&mut self, what: &str) -> Duration {
        assert!(self.began.elapsed() < self.bound, "not within {:?}: {what}", self.bound);
        let pause = self.next;
        self.next = (pause * 2).min(Self::LONGEST);
        pause
    }
}

/// Waits until something holds.
///
/// # Panics
/// If it does not within [`PATIENCE`], with `what` was waited for.
pub async fn wait_until(what: &str, holds: impl AsyncFnMut() -> bool) {
    wait_within(what, PATIENCE, holds).await;
}

/// Waits until something holds, for at most `bound`.
///
/// # Panics
/// If it does not, with `what` was waited for.
pub async fn wait_within(what: &str, bound: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let mut pauses = Pauses::within(bound);
    while !holds().await {
        tokio::time::sleep(pauses.next(what)).await;
    }
}

/// Waits until something is there.
///
/// # Panics
/// If it is not within [`PATIENCE`], with `what` was waited for.
pub async fn wait_for<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut pauses = Pauses::within(PATIENCE);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(pauses.next(what)).await;
    }
}

/// As [`wait_until`], in a test without a runtime.
///
/// # Panics
/// As there.
#[track_caller]
pub fn wait_until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let mut pauses = Pauses::within(PATIENCE);
    while !holds() {
        std::thread::sleep(pauses.next(what));
    }
}

/// Awaits a future that must not take long.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub async fn soon<F: Future>(future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {PATIENCE:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_at_last_is_waited_for() {
        let mut looks = 0;
        wait_until_blocking("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "not within 10ms: pigs that fly")]
    async fn what_never_holds_is_named() {
        wait_within("pigs that fly", Duration::from_millis(10), async || false).await;
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let mut pauses = Pauses::within(PATIENCE);
        let all: Vec<u128> = (0..7).map(|_| pauses.next("").as_millis()).collect();
        assert_eq!(all, [5, 10, 20, 40, 80, 100, 100]);
    }
}
