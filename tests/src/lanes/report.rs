//! Report of all lanes: times, and at the very end the tests that failed, with their output.

use super::step::Done;
use std::fmt;
use std::time::Duration;

/// Number of slowest tests that are named.
const SLOWEST: usize = 10;

/// Most lines of a failed test that are printed again, half from its beginning and half from its end.
const LINES: usize = 80;

/// Results of all steps.
#[derive(Debug)]
pub(super) struct Report {
    done: Vec<Done>,
    time: Duration,
}

impl Report {
    /// Of these steps, which took so long together.
    pub(super) fn of(done: Vec<Done>, time: Duration) -> Self {
        Self { done, time }
    }

    /// True if every step succeeded.
    pub(super) fn passed(&self) -> bool {
        self.done.iter().all(|step| step.passed)
    }

    fn slowest(&self) -> Vec<(&str, &str, Duration)> {
        let mut all: Vec<_> = self
            .done
            .iter()
            .flat_map(|step| step.tests.iter().map(move |(test, time)| (step, test, *time)))
            .map(|(step, test, time)| (step.name.as_str(), test.as_str(), time))
            .collect();
        all.sort_by_key(|(_, _, time)| std::cmp::Reverse(*time));
        all.truncate(SLOWEST);
        all
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: usize = self.done.iter().map(|step| step.tests.len()).sum();
        writeln!(f, "==> {count} tests in {:.0} s; the slowest", self.time.as_secs_f64())?;
        for (step, test, time) in self.slowest() {
            writeln!(f, "{:7.1} s  {step} {test}", time.as_secs_f64())?;
        }
        let failed: Vec<&Done> = self.done.iter().filter(|step| !step.passed).collect();
        for step in &failed {
            for (test, printed) in &step.failures {
                writeln!(f, "\n==> FAILED {} {test}", step.name)?;
                write_short(f, printed)?;
            }
            // It died, or is no program of tests.
            if step.failures.is_empty() {
                writeln!(f, "\n==> FAILED {}, which said last", step.name)?;
                write_short(f, &step.end)?;
            }
        }
        if !failed.is_empty() {
            writeln!(f, "\n==> FAILED")?;
        }
        for step in failed {
            match step.failures.as_slice() {
                [] => writeln!(f, "{}", step.name)?,
                tests => tests.iter().try_for_each(|(t, _)| writeln!(f, "{} {t}", step.name))?,
            }
        }
        Ok(())
    }
}

/// Prints the first and the last lines, without the calls that led to a panic.
fn write_short(f: &mut fmt::Formatter<'_>, printed: &[String]) -> fmt::Result {
    let mut lines: Vec<&str> = Vec::new();
    let mut calls = false;
    for line in printed {
        calls = match line.as_str() {
            "stack backtrace:" => true,
            line if calls => line.starts_with(' '),
            _ => false,
        };
        if !calls {
            lines.push(line);
        }
    }
    let half = LINES / 2;
    let left_out = lines.len().saturating_sub(LINES);
    for (number, line) in lines.iter().enumerate() {
        if left_out > 0 && number == half {
            writeln!(f, "... {left_out} lines are left out")?;
        }
        if number < half || number >= half.saturating_add(left_out) {
            writeln!(f, "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, seconds: &[u64], failures: &[(&str, Vec<String>)]) -> Done {
        let test = |(number, seconds): (usize, &u64)| {
            (format!("t{number}"), Duration::from_secs(*seconds))
        };
        let owned = |(name, lines): &(&str, Vec<String>)| ((*name).to_owned(), lines.clone());
        Done {
            name: name.to_owned(),
            passed: failures.is_empty(),
            time: Duration::from_secs(seconds.iter().sum()),
            tests: seconds.iter().enumerate().map(test).collect(),
            failures: failures.iter().map(owned).collect(),
            end: Vec::new(),
        }
    }

    #[test]
    fn failed_tests_come_last_with_what_they_printed_but_without_calls() {
        let mut printed = vec!["panicked at here:".to_owned(), "stack backtrace:".to_owned()];
        printed.extend((0..100).map(|call| format!("  {call}: called")));
        printed.push("note: more".to_owned());
        let steps = vec![step("a", &[1, 3], &[("t1", printed)]), step("b", &[2], &[])];
        let report = Report::of(steps, Duration::from_secs(4));
        assert!(!report.passed());
        let expected = "==> 3 tests in 4 s; the slowest\n    3.0 s  a t1\n    2.0 s  b t0\n    \
                        1.0 s  a t0\n\n==> FAILED a t1\npanicked at here:\nnote: more\n\n==> \
                        FAILED\na t1\n";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn of_long_output_the_middle_is_left_out() {
        let printed: Vec<String> = (0..500).map(|number| format!("line {number}")).collect();
        let report = Report::of(vec![step("a", &[1], &[("t0", printed)])], Duration::ZERO);
        let text = report.to_string();
        assert!(text.contains("line 39\n... 420 lines are left out\nline 460\n"), "{text}");
    }
}
