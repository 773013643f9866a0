//! The answers for people.

use super::cause::Cause;
use super::misplaced::words;
use super::near_miss::condition_words;
use super::report::{Answer, ChangeItem, ProposalItem, WhyReport, WhyVerdict};
use crate::output::{self, Paint, WideFormat};
use crate::tap::line::visible;
use policy_core::explain::{Explanation, GrantEvaluation, OtherRule, RuleOutcome};
use policy_core::{Decision, Owner, WorkloadKey};
use policy_engine::view::protocol_name;
use std::fmt::Write;

/// Number of workloads and of changed accesses that are named; further ones are only counted.
const NAMED: usize = 3;
const CHANGED: usize = 8;

impl WhyReport {
    /// The answers, the first cause in the first line of each. Manifests have identities in full, whatever
    /// the format.
    pub(crate) fn text(&self, paint: Paint, format: WideFormat) -> String {
        let suffix = self.settings.config.identity_suffix();
        let mut text = String::new();
        for (number, answer) in self.answers.iter().enumerate() {
            if number > 0 {
                text.push('\n');
            }
            let mut words = String::new();
            self.otherwise(&mut words, answer, paint);
            answer.write(&mut words, paint);
            if let Some(remark) = &self.question.remark {
                line(&mut words, "note", remark);
            }
            line(&mut words, "question", &self.question_words(answer));
            if let Some(recorded) = &self.question.recorded {
                line(&mut words, "recorded", recorded);
            }
            if let Some(in_force) = &answer.in_force {
                line(&mut words, "in force", &in_force.words());
            }
            answer.details(&mut words, paint);
            text.push_str(&shown(&words, format, &suffix));
            let first = answer.least_change.proposals.first();
            text.push_str(&first.map(ProposalItem::manifest).unwrap_or_default());
        }
        text
    }

    /// The first line where something else is in force, or was recorded, than what the objects say.
    fn otherwise(&self, text: &mut String, answer: &Answer, paint: Paint) {
        let mut write = |heading: &str, words: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}: {}", paint.notice(heading), visible(words));
        };
        if let Some(in_force) = answer.in_force.as_ref().filter(|own| own.differs) {
            let words = format!("{}: {}; the objects say:", in_force.words(), in_force.cause());
            write("in force otherwise", &words);
        }
        if let Some(recorded) = &self.question.recorded_otherwise {
            write("recorded otherwise", &format!("{recorded}; now:"));
        }
    }

    fn question_words(&self, answer: &Answer) -> String {
        let request = self.question.request.as_deref().unwrap_or("the connection");
        format!("{request}, from {} to {} ({})", answer.client, workloads(answer), self.source)
    }
}

fn workloads(answer: &Answer) -> String {
    let named: Vec<&str> = answer.workloads.iter().take(NAMED).map(String::as_str).collect();
    let more = match answer.workloads.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}, port {}", named.join(", "), answer.port)
}

/// The words with identities as `ACCOUNT.NAMESPACE`, save where the format is wide or where every
/// account of the mesh is meant.
fn shown(words: &str, format: WideFormat, suffix: &str) -> String {
    let end = format!(".serviceaccount.identity.{suffix}");
    match format {
        WideFormat::Table if !words.contains(&format!("*{end}")) => words.replace(&end, ""),
        WideFormat::Table | WideFormat::Wide | WideFormat::Json | WideFormat::Yaml => {
            words.to_owned()
        }
    }
}

/// Writes a line under a heading of fixed width. Writing to a String cannot fail.
fn line(text: &mut String, heading: &str, content: &str) {
    let _ = writeln!(text, "  {heading:<9} {}", visible(content));
}

impl Cause {
    /// The cause with its place.
    pub(crate) fn text(&self) -> String {
        match &self.place {
            Some(place) => format!("{} ({place})", self.summary),
            None => self.summary.clone(),
        }
    }
}

impl Answer {
    /// The first line, and the further causes.
    fn write(&self, text: &mut String, paint: Paint) {
        let reason = self.reason.map(|reason| format!(", {reason}")).unwrap_or_default();
        let verdict = format!("{}{reason}", self.verdict.as_str());
        let verdict = match self.verdict {
            WhyVerdict::Allow | WhyVerdict::Audit => paint.good(&verdict),
            WhyVerdict::Deny | WhyVerdict::Open | WhyVerdict::Blocked => paint.bad(&verdict),
            WhyVerdict::NotKnown => paint.notice(&verdict),
        };
        let mut causes = self.causes.iter();
        let first = causes.next().map(Cause::text).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{verdict}: {}", visible(&first));
        for cause in causes {
            line(text, "also", &cause.text());
        }
        for missing in &self.not_known {
            line(text, "not known", &format!("{missing} may not be listed"));
        }
    }

    fn details(&self, text: &mut String, paint: Paint) {
        if let Some(explanation) = &self.explanation {
            self.way(text, explanation);
        }
        self.least_change.write(text, paint);
    }

    fn placed(&self, name: &str) -> String {
        let place = self.places.iter().find(|item| item.object == name);
        place.map(|item| format!("{name} ({})", item.place)).unwrap_or_else(|| name.to_owned())
    }

    /// The way of the decision: port, route and what lost against it, grants.
    fn way(&self, text: &mut String, explanation: &Explanation) {
        let owner = match &explanation.owner {
            Owner::Server(server) => self.placed(&server.to_string()),
            Owner::Default(default) => format!("the default policy {}", default.as_str()),
        };
        let port = format!("{}, {}, of {owner}", self.port, protocol_name(explanation.protocol));
        line(text, "port", &port);
        if let Some(origin) = &explanation.route {
            let matched = explanation.matched.as_ref();
            let matched = matched.map(|wanted| format!(", by `{wanted}`")).unwrap_or_default();
            line(text, "route", &format!("{}{matched}", self.placed(&origin.to_string())));
            if let Some(delegated) = origin.delegated_path() {
                line(text, "handed", &delegated.to_string());
            }
        }
        for other in &explanation.others {
            other_rule(text, other, &self.placed(&other.origin.to_string()));
        }
        let denied = matches!(explanation.decision, Decision::Deny(_));
        for grant in &explanation.considered {
            if denied || grant.failed.is_none() {
                self.grant(text, grant);
            }
        }
        if explanation.omitted > 0 && denied {
            line(
                text,
                "grants",
                &format!("{} more, which miss as much or more", explanation.omitted),
            );
        }
        for withheld in &explanation.withheld {
            let name = self.placed(&withheld.source.to_string());
            line(text, "withheld", &format!("{name}: {}", withheld.reason));
        }
        if let Some(limit) = explanation.rate_limit.as_ref().filter(|limit| limit.limits()) {
            line(text, "limit", &self.placed(&limit.source.to_string()));
        }
        for effect in &explanation.effects.applied {
            line(text, "effect", &self.placed(&effect.source.to_string()));
        }
    }

    fn grant(&self, text: &mut String, grant: &GrantEvaluation) {
        let name = self.placed(&grant.source.to_string());
        let Some(failed) = &grant.failed else { return line(text, "granted", &name) };
        let Some(condition) = &failed.condition else {
            return line(text, "grant", &format!("{name} holds for nobody"));
        };
        let through = match condition.source == grant.source {
            true => String::new(),
            false => format!(", set by {}", self.placed(&condition.source.to_string())),
        };
        let more = match grant.failures.saturating_sub(1) {
            0 => String::new(),
            more => format!("; {more} more unmet"),
        };
        let content = format!(
            "{name} asks for {}{through}; the client has {}{more}",
            condition_words(&condition.test),
            failed.client
        );
        line(text, "grant", &content);
    }
}

fn other_rule(text: &mut String, other: &OtherRule, name: &str) {
    let OtherRule { origin: _, wanted, outcome } = other;
    match outcome {
        RuleOutcome::Lost(by) => {
            line(text, "lost", &format!("{name} `{wanted}`: of the other, {}", words(*by)));
        }
        RuleOutcome::Missed(parts) => {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            line(text, "missed", &format!("{name} `{wanted}` by {}", parts.join(" and ")));
        }
    }
}

impl ChangeItem {
    fn write(&self, text: &mut String, paint: Paint) {
        for note in &self.notes {
            line(text, "change", note);
        }
        let Some(first) = self.proposals.first() else { return };
        let more = self.proposals.len().saturating_sub(1);
        if more > 0 {
            line(
                text,
                "change",
                &format!("below; {more} more, which allow as much or more, by -o json"),
            );
        }
        first.write(text, paint);
    }
}

impl ProposalItem {
    fn write(&self, text: &mut String, paint: Paint) {
        let complete = if self.incomplete { ", perhaps among others" } else { "" };
        let heading = format!("least change, which newly allows{complete}:");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{}", paint.bold(&heading));
        for one in self.newly_allows.iter().take(CHANGED) {
            let words =
                format!("{} on {} port {}, {}", one.client, one.workload, one.port, one.route);
            let _ = writeln!(text, "  {}", visible(&words));
        }
        let more = self.newly_allows.len().saturating_sub(CHANGED);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
    }

    /// The objects as YAML that can be applied.
    pub(crate) fn manifest(&self) -> String {
        let documents = self.objects.iter().map(|object| match output::yaml(object) {
            Ok(yaml) => format!("---\n{yaml}"),
            Err(_) => format!("---\n{object}\n"),
        });
        documents.collect()
    }
}

/// A workload as answers name it.
pub(super) fn workload_name(key: &WorkloadKey) -> String {
    key.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_text_of_an_answer() {
        let mut text = String::new();
        line(&mut text, "note", "a\u{1b}[2J\nb");
        assert_eq!(text, "  note      a\u{fffd}[2J\u{fffd}b\n");
    }
}
