//! Findings as they are told: by section for people, as fields for programs.

use super::check::Section;
use super::finding::{Finding, Outcome};
use crate::cluster::Asked;
use crate::output::Paint;
use serde::Serialize;
use std::fmt::Write;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// What was asked.
    pub(crate) asked: Asked,
    /// Whether nothing fails, and nothing warns where warnings are denied.
    pub(crate) healthy: bool,
    /// How many are as they should be.
    pub(crate) passed: usize,
    /// How many are to be looked at.
    pub(crate) warnings: usize,
    /// How many do not work.
    pub(crate) failures: usize,
    /// How many could not be looked at.
    pub(crate) unknown: usize,
    /// Every line.
    pub(crate) findings: Vec<Line>,
    /// The word for what is well.
    #[serde(skip)]
    well: &'static str,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// The heading that it is below.
    pub(crate) section: &'static str,
    /// What was looked at.
    pub(crate) check: &'static str,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// What was found.
    pub(crate) message: String,
    /// What mends it.
    pub(crate) mend: Option<String>,
    /// Where the documents explain it.
    pub(crate) page: String,
}

impl Report {
    /// Puts findings in order. `well` is the word for what is well: healthy, ready to install.
    pub(crate) fn new(
        asked: Asked,
        mut findings: Vec<Finding>,
        deny_warnings: bool,
        well: &'static str,
    ) -> Self {
        findings.sort_by_key(|finding| (finding.check.section(), finding.check));
        let count = |outcome| findings.iter().filter(|it| it.outcome == outcome).count();
        let (warnings, failures) = (count(Outcome::Warn), count(Outcome::Fail));
        Self {
            asked,
            healthy: failures == 0 && !(deny_warnings && warnings > 0),
            passed: count(Outcome::Pass),
            warnings,
            failures,
            unknown: count(Outcome::Unknown),
            findings: findings.into_iter().map(Line::of).collect(),
            well,
        }
    }

    /// The lines below their headings, and the sum.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.dim(&self.asked.to_string()));
        let mut section = "";
        for line in &self.findings {
            if line.section != section {
                section = line.section;
                // Writing to a String cannot fail.
                let _ = write!(text, "\n{}\n", paint.bold(section));
            }
            text.push_str(&line.text(paint));
        }
        let _ = writeln!(text, "\n{}", self.sum(paint));
        text
    }

    fn sum(&self, paint: Paint) -> String {
        let Self { passed, warnings, failures, unknown, .. } = self;
        let word = if self.healthy && *unknown > 0 {
            paint.notice(&format!("{}, as far as it is known", self.well))
        } else if self.healthy {
            paint.good(self.well)
        } else {
            paint.bad(&format!("not {}", self.well))
        };
        let mut counts = vec![format!("{passed} passed")];
        for (count, one, many) in [
            (*failures, "failure", "failures"),
            (*warnings, "warning", "warnings"),
            (*unknown, "not known", "not known"),
        ] {
            if count > 0 {
                counts.push(format!("{count} {}", if count == 1 { one } else { many }));
            }
        }
        format!("{word}: {}", counts.join(", "))
    }
}

impl Line {
    fn of(finding: Finding) -> Self {
        let Finding { check, outcome, message, mend } = finding;
        let section: Section = check.section();
        let (section, page) = (section.title(), section.page());
        Self { section, check: check.name(), outcome, message, mend, page }
    }

    fn text(&self, paint: Paint) -> String {
        let word = match self.outcome {
            Outcome::Pass => paint.good("ok  "),
            Outcome::Warn => paint.notice("warn"),
            Outcome::Fail => paint.bad("FAIL"),
            Outcome::Unknown => paint.notice("?   "),
        };
        let mut text = format!("  {word}  {}\n", self.message);
        if self.outcome == Outcome::Pass {
            return text;
        }
        if let Some(mend) = &self.mend {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "        mend: {mend}");
        }
        let _ =
            writeln!(text, "        {}", paint.dim(&format!("see {}: {}", self.page, self.check)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::check::Check;
    use crate::checkup::read::Unread;
    use crate::cluster::Scope;
    use std::path::Path;

    #[test]
    fn what_fails_is_told_with_its_mend_below_its_heading() {
        let asked = Asked::directory(Path::new("x"), &Scope::All);
        let findings = vec![
            Finding::fail(Check::Leader, "nobody leads", "look at the Lease"),
            Finding::pass(Check::ApiServer, "it answers"),
            Finding::warn(Check::Clock, "a minute", "NTP"),
        ];
        let report = Report::new(asked.clone(), findings.clone(), false, "healthy");
        assert_eq!(
            report.text(Paint::plain()),
            "manifests of x, all namespaces\n\nCluster\n  ok    it answers\n  warn  a minute\n        \
             mend: NTP\n        see docs/health.md#cluster: clock\n\nControl plane\n  FAIL  nobody \
             leads\n        mend: look at the Lease\n        see docs/health.md#control-plane: leader\n\n\
             not healthy: 1 passed, 1 failure, 1 warning\n"
        );
        let warned = Report::new(asked.clone(), findings[1..].to_vec(), false, "healthy");
        assert!(warned.healthy && warned.text(Paint::plain()).contains("\nhealthy: 1 passed, 1 w"));
        assert!(!Report::new(asked.clone(), findings[1..].to_vec(), true, "healthy").healthy);
        let unknown = vec![Finding::unknown(Check::Leader, &Unread::Failed("no".to_owned()))];
        let text = Report::new(asked, unknown, false, "healthy").text(Paint::plain());
        assert!(text.contains("\nhealthy, as far as it is known: 0 passed, 1 not known"), "{text}");
    }
}
