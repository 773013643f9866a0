//! Progress of asking many sidecars, on standard error.

use std::io::{self, IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

/// Time between two lines on a terminal, where each replaces the former.
const REDRAWN: Duration = Duration::from_millis(250);

/// Time between two lines elsewhere.
const REPEATED: Duration = Duration::from_secs(5);

/// Counts sidecars that were asked, and prints the count from time to time. A command that ends sooner
/// prints nothing.
pub(super) struct Progress<W> {
    out: W,
    redraws: bool,
    total: usize,
    done: usize,
    told: Instant,
    is_drawn: bool,
}

impl Progress<Stderr> {
    /// Creates the count of `total` sidecars on standard error.
    pub(super) fn stderr(total: usize) -> Self {
        let redraws = io::stderr().is_terminal();
        Self::new(io::stderr(), redraws, total, Instant::now())
    }
}

impl<W: Write> Progress<W> {
    fn new(out: W, redraws: bool, total: usize, now: Instant) -> Self {
        Self { out, redraws, total, done: 0, told: now, is_drawn: false }
    }

    /// Time between two lines.
    pub(super) fn interval(&self) -> Duration {
        if self.redraws { REDRAWN } else { REPEATED }
    }

    /// Counts one sidecar that answered, or did not.
    pub(super) fn count(&mut self) {
        self.done = self.done.saturating_add(1);
    }

    /// Prints the count if the last line is old enough.
    pub(super) fn tell(&mut self, now: Instant) {
        if now.saturating_duration_since(self.told) < self.interval() {
            return;
        }
        self.told = now;
        let (done, total) = (self.done, self.total);
        // Nothing depends on it if standard error is closed.
        let _ = if self.redraws {
            self.is_drawn = true;
            write!(self.out, "\r\x1b[K{done} of {total} sidecars asked")
                .and_then(|()| self.out.flush())
        } else {
            writeln!(self.out, "{done} of {total} sidecars asked")
        };
    }

    /// Removes the line of a terminal.
    pub(super) fn end(mut self) {
        if self.is_drawn {
            let _ = write!(self.out, "\r\x1b[K").and_then(|()| self.out.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output about three sidecars that take a second each.
    fn printed(redraws: bool, second: Duration) -> String {
        let mut out = Vec::new();
        let start = Instant::now();
        let mut progress = Progress::new(&mut out, redraws, 3, start);
        for n in 1..=3 {
            progress.count();
            progress.tell(start.checked_add(second.saturating_mul(n)).unwrap());
        }
        progress.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_long_wait_is_told_and_a_short_one_is_silent() {
        assert_eq!(printed(false, Duration::from_secs(1)), "");
        assert_eq!(printed(true, Duration::from_millis(1)), "");
        assert_eq!(printed(false, Duration::from_secs(3)), "2 of 3 sidecars asked\n");
        let terminal = "\r\x1b[K1 of 3 sidecars asked\r\x1b[K2 of 3 sidecars asked\
                        \r\x1b[K3 of 3 sidecars asked\r\x1b[K";
        assert_eq!(printed(true, Duration::from_secs(1)), terminal);
    }
}
