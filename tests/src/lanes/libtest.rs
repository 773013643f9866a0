//! Output of a program of tests: the tests that failed, with their output, and the time of each.

use std::collections::BTreeMap;
use std::time::Duration;

/// One line, and when it came, from the start of the program.
pub(super) type Line = (Duration, String);

/// Time of each test. The program starts tests in their order, one per thread, and prints a line when
/// one ends, at which the next one starts.
pub(super) fn times(order: &[String], threads: usize, lines: &[Line]) -> Vec<(String, Duration)> {
    let mut waiting = order.iter();
    let mut begun: BTreeMap<&str, Duration> = BTreeMap::new();
    for name in waiting.by_ref().take(threads) {
        begun.insert(name, Duration::ZERO);
    }
    let mut times = Vec::new();
    for (at, line) in lines {
        let Some(name) = ended(line) else { continue };
        // Unknown: the line was torn by something else that was printed.
        let Some(start) = begun.remove(name) else { continue };
        times.push((name.to_owned(), at.saturating_sub(start)));
        if let Some(next) = waiting.next() {
            begun.insert(next, *at);
        }
    }
    times
}

/// The test that this line says has ended.
fn ended(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let known = ["ok", "FAILED", "ignored"].iter().any(|known| outcome.starts_with(known));
    known.then(|| name.strip_suffix(" - should panic").unwrap_or(name))
}

/// The names in the answer to `--list --format terse`.
pub(super) fn names(listed: &str) -> Vec<String> {
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// The tests that failed, each with what it printed.
pub(super) fn failures(lines: &[Line]) -> Vec<(String, Vec<String>)> {
    let mut failures: Vec<(String, Vec<String>)> = Vec::new();
    let mut within = false;
    for (_, line) in lines {
        let name = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            failures.push((name.to_owned(), Vec::new()));
            within = true;
        } else if line == "failures:" {
            within = false;
        } else if let (true, Some((_, printed))) = (within, failures.last_mut()) {
            printed.push(line.clone());
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        let line = |line: &str| {
            let (at, text) = line.split_once('|').unwrap();
            (Duration::from_secs(at.parse().unwrap()), text.to_owned())
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_test_begins_when_the_one_before_it_ends() {
        let order = ["a", "b", "c", "d"].map(str::to_owned);
        let said = lines(
            "0|running 4 tests\n3|test b ... ok\n5|test c ... FAILED\n9|test a ... ok\n10|test d - should panic ... ok",
        );
        let seconds: Vec<(String, u64)> = times(&order, 2, &said)
            .into_iter()
            .map(|(name, time)| (name, time.as_secs()))
            .collect();
        let expected = [("b", 3), ("c", 2), ("a", 9), ("d", 5)];
        assert_eq!(seconds, expected.map(|(name, time)| (name.to_owned(), time)));
    }

    #[test]
    fn what_a_failed_test_printed_is_found() {
        let said = lines(
            "1|test a ... FAILED\n1|\n1|failures:\n1|\n1|---- a stdout ----\n1|x\n1|thread 'a' panicked\n1|\n1|\n1|failures:\n1|    a\n1|\n1|test result: FAILED",
        );
        let found = failures(&said);
        let printed = ["x", "thread 'a' panicked", "", ""].map(str::to_owned).to_vec();
        assert_eq!(found, [("a".to_owned(), printed)]);
    }

    #[test]
    fn benchmarks_are_no_tests() {
        assert_eq!(names("a::b: test\nc: benchmark\n\n"), ["a::b"]);
    }
}
