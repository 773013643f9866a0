//! Output of check results: by section for people, as fields for programs.

use super::check::Section;
use super::result::{CheckOutcome, CheckResult};
use crate::cluster::QuerySource;
use crate::output::Paint;
use serde::Serialize;
use std::fmt::Write;

/// Results of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiagnosticsReport {
    /// The cluster.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// True if nothing fails, and nothing warns where warnings are denied.
    pub(crate) healthy: bool,
    /// Number of checks that passed.
    pub(crate) passed: usize,
    /// Number of warnings.
    pub(crate) warnings: usize,
    /// Number of failures.
    pub(crate) failures: usize,
    /// Number of checks with an unknown result.
    pub(crate) unknown: usize,
    /// The results.
    pub(crate) findings: Vec<CheckLine>,
    /// Word for success.
    #[serde(skip)]
    verdict: &'static str,
}

/// Output line of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckLine {
    /// Its section.
    pub(crate) section: &'static str,
    /// Name of the check.
    pub(crate) check: &'static str,
    /// Its outcome.
    pub(crate) outcome: CheckOutcome,
    /// Details.
    pub(crate) message: String,
    /// Hint for mending it.
    #[serde(rename = "mend")]
    pub(crate) hint: Option<String>,
    /// Section of the documentation.
    pub(crate) page: String,
}

impl DiagnosticsReport {
    /// Creates a report from sorted results. `verdict` is the word for success: healthy, ready to
    /// install.
    pub(crate) fn new(
        source: QuerySource,
        mut findings: Vec<CheckResult>,
        deny_warnings: bool,
        verdict: &'static str,
    ) -> Self {
        findings.sort_by_key(|finding| (finding.check.section(), finding.check));
        let count = |outcome| findings.iter().filter(|it| it.outcome == outcome).count();
        let (warnings, failures) = (count(CheckOutcome::Warn), count(CheckOutcome::Fail));
        Self {
            source,
            healthy: failures == 0 && !(deny_warnings && warnings > 0),
            passed: count(CheckOutcome::Pass),
            warnings,
            failures,
            unknown: count(CheckOutcome::Unknown),
            findings: findings.into_iter().map(CheckLine::of).collect(),
            verdict,
        }
    }

    /// Results below their sections, and the summary.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.dim(&self.source.to_string()));
        let mut section = "";
        for line in &self.findings {
            if line.section != section {
                section = line.section;
                // Writing to a String cannot fail.
                let _ = write!(text, "\n{}\n", paint.bold(section));
            }
            text.push_str(&line.text(paint));
        }
        let _ = writeln!(text, "\n{}", self.summary(paint));
        text
    }

    fn summary(&self, paint: Paint) -> String {
        let Self { passed, warnings, failures, unknown, .. } = self;
        let word = if self.healthy && *unknown > 0 {
            paint.notice(&format!("{}, as far as it is known", self.verdict))
        } else if self.healthy {
            paint.good(self.verdict)
        } else {
            paint.bad(&format!("not {}", self.verdict))
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

impl CheckLine {
    fn of(finding: CheckResult) -> Self {
        let CheckResult { check, outcome, message, hint } = finding;
        let section: Section = check.section();
        let (section, page) = (section.title(), section.page());
        Self { section, check: check.name(), outcome, message, hint, page }
    }

    fn text(&self, paint: Paint) -> String {
        let word = match self.outcome {
            CheckOutcome::Pass => paint.good("ok  "),
            CheckOutcome::Warn => paint.notice("warn"),
            CheckOutcome::Fail => paint.bad("FAIL"),
            CheckOutcome::Unknown => paint.notice("?   "),
        };
        let mut text = format!("  {word}  {}\n", self.message);
        if self.outcome == CheckOutcome::Pass {
            return text;
        }
        if let Some(hint) = &self.hint {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "        mend: {hint}");
        }
        let _ =
            writeln!(text, "        {}", paint.dim(&format!("see {}: {}", self.page, self.check)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Scope;
    use crate::diagnostics::check::Check;
    use crate::diagnostics::fetch::FetchError;

    #[test]
    fn what_fails_is_reported_with_its_mend_below_its_heading() {
        let source = QuerySource::directory("x", &Scope::All);
        let findings = vec![
            CheckResult::fail(Check::Leader, "no replica leads", "look at the Lease"),
            CheckResult::pass(Check::ApiServer, "it answers"),
            CheckResult::warn(Check::Clock, "a minute", "NTP"),
        ];
        let report = DiagnosticsReport::new(source.clone(), findings.clone(), false, "healthy");
        assert_eq!(
            report.text(Paint::plain()),
            "manifests of x, all namespaces\n\nCluster\n  ok    it answers\n  warn  a minute\n        \
             mend: NTP\n        see docs/health.md#cluster: clock\n\nControl plane\n  FAIL  no replica \
             leads\n        mend: look at the Lease\n        see docs/health.md#control-plane: leader\n\n\
             not healthy: 1 passed, 1 failure, 1 warning\n"
        );
        let warned =
            DiagnosticsReport::new(source.clone(), findings[1..].to_vec(), false, "healthy");
        assert!(warned.healthy && warned.text(Paint::plain()).contains("\nhealthy: 1 passed, 1 w"));
        assert!(
            !DiagnosticsReport::new(source.clone(), findings[1..].to_vec(), true, "healthy")
                .healthy
        );
        let unknown =
            vec![CheckResult::unknown(Check::Leader, &FetchError::Failed("no".to_owned()))];
        let text = DiagnosticsReport::new(source, unknown, false, "healthy").text(Paint::plain());
        assert!(text.contains("\nhealthy, as far as it is known: 0 passed, 1 not known"), "{text}");
    }
}
