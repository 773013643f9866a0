//! Table of `portcullis status`, with details of failures below it.

use super::sidecars::SkippedPort;
use super::{Condition, ConditionSource, Object, Programmed, StatusReport};
use crate::output::{self, Paint};
use std::fmt::Write;

impl StatusReport {
    /// The table.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}{}\n", paint.dim(&self.source.to_string()), self.by(paint));
        for missing in &self.missing {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", paint.notice(&format!("the controller says: {missing}")));
        }
        text.push('\n');
        let rows = self.objects.iter().map(row);
        let header = ["OBJECT", "ACCEPTED", "RESOLVEDREFS", "PROGRAMMED"];
        text.push_str(&output::table_within(output::width(), header, rows));
        for object in &self.objects {
            let lines = details(object, paint);
            if !lines.is_empty() {
                let _ = write!(text, "\n{}\n{lines}", paint.bold(&name(object)));
            }
        }
        for pod in &self.without_sidecar {
            let name = paint.bold(&format!("Pod {}/{}", pod.namespace, pod.name));
            let why = paint.notice(&format!("no sidecar: {}", pod.why));
            let _ = write!(text, "\n{name}\n  {why}\n");
        }
        for pod in &self.unpulled {
            let name = paint.bold(&format!("Pod {}/{}", pod.namespace, pod.name));
            let why = format!("its node cannot pull an image of the sidecar: {}", pod.reason);
            let _ = write!(text, "\n{name}\n  {}\n", paint.notice(&why));
        }
        for pod in &self.outside_networks {
            let name = paint.bold(&format!("Pod {}/{}", pod.namespace, pod.name));
            let addresses = pod.addresses.join(", ");
            let why = format!(
                "{addresses} is outside the networks that sidecars look up: what others send to it leaves \
                 in plaintext"
            );
            let _ = write!(text, "\n{name}\n  {}\n", paint.notice(&why));
        }
        for skipped in &self.skipped_ports {
            let SkippedPort { namespace, name, port, why } = skipped;
            let name = paint.bold(&format!("Pod {namespace}/{name}"));
            let why = paint.notice(&format!("port {port}: {why}"));
            let _ = write!(text, "\n{name}\n  {why}\n");
        }
        text
    }

    fn by(&self, paint: Paint) -> String {
        match (&self.controller, &self.no_controller) {
            (Some(controller), _) => paint.dim(&format!(", reported by {controller}")),
            (None, Some(why)) => {
                let line = format!(
                    "\nno controller responds: {why}\nconditions are computed here; those in the \
                     objects' status are listed below; PROGRAMMED is from the objects' status"
                );
                paint.notice(&line)
            }
            (None, None) => String::new(),
        }
    }
}

fn name(object: &Object) -> String {
    let Object { kind, namespace, name, .. } = object;
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

fn row(object: &Object) -> [String; 4] {
    [
        name(object),
        merged_status(object, "Accepted"),
        merged_status(object, "ResolvedRefs"),
        programmed(object),
    ]
}

/// Conditions of a type merged into one word: a failure for one parent is a failure.
fn merged_status(object: &Object, kind: &str) -> String {
    let conditions = object
        .conditions
        .iter()
        .filter(|c| c.r#type == kind && c.source != ConditionSource::Object);
    let statuses: Vec<&str> = conditions.map(|condition| condition.status.as_str()).collect();
    let word = ["False", "Unknown", "True"].into_iter().find(|word| statuses.contains(word));
    word.unwrap_or("-").to_owned()
}

fn programmed(object: &Object) -> String {
    if let Some(Programmed { in_force, concerned, reason, .. }) = &object.programmed {
        return match (concerned, reason) {
            (0, Some(reason)) => reason.clone(),
            _ => format!("{in_force} of {concerned}"),
        };
    }
    let source_words = object.conditions.iter().filter(|c| c.r#type == "Programmed");
    let statuses: Vec<&str> = source_words.map(|condition| condition.status.as_str()).collect();
    let word = ["False", "Unknown", "True"].into_iter().find(|word| statuses.contains(word));
    word.map_or("-".to_owned(), |word| word.to_owned())
}

/// Conditions that need attention, and what an InboundRoute has in trees, one per line.
fn details(object: &Object, paint: Paint) -> String {
    let mut text = String::new();
    if let Some(line) = object.programmed.as_ref().and_then(|count| programmed_line(count, paint)) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {line}");
    }
    for condition in &object.conditions {
        if is_notable(object, condition) {
            let _ = writeln!(text, "  {}", line(condition, paint));
        }
    }
    for line in object.delegation.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Line about a count: why the object is not enforced everywhere, and on which pods.
fn programmed_line(programmed: &Programmed, paint: Paint) -> Option<String> {
    let Programmed { in_force, concerned, refused, status, reason, message } = programmed;
    let (Some(status), Some(reason), Some(message)) = (status, reason, message) else {
        let line = format!("refused by {refused} of {concerned} proxies");
        return (*refused > 0).then(|| paint.bad(&line));
    };
    let everywhere = format!("in force on {in_force} of {concerned} proxies");
    let line = format!("Programmed={status} ({reason})");
    match status.as_str() {
        "True" if *message == everywhere => None,
        "True" => Some(format!("{line}: {message}")),
        "False" => Some(format!("{}: {message}", paint.bad(&line))),
        _ => Some(format!("{}: {message}", paint.notice(&line))),
    }
}

/// True if a condition contains more than success. One in the object's status is printed if it is
/// not computed here, or differs from the computed one.
fn is_notable(object: &Object, condition: &Condition) -> bool {
    if condition.r#type == policy_crds::HOSTNAMES_ATTACHED {
        // The record of times, in which nothing can be wrong.
        return false;
    }
    let unwell = condition.status != "True" || !condition.message.is_empty();
    if condition.source != ConditionSource::Object {
        return unwell;
    }
    let same = object.conditions.iter().find(|other| {
        other.source != ConditionSource::Object
            && other.r#type == condition.r#type
            && other.parent == condition.parent
    });
    same.map_or(unwell, |other| other.status != condition.status) || condition.outdated
}

fn line(condition: &Condition, paint: Paint) -> String {
    let Condition { r#type, status, reason, message, parent, source, writer, outdated, .. } =
        condition;
    let stated = format!("{type}={status} ({reason})");
    let stated = match status.as_str() {
        "True" => stated,
        "False" => paint.bad(&stated),
        _ => paint.notice(&stated),
    };
    let parent = parent.as_ref().map(|parent| format!(" for {parent}")).unwrap_or_default();
    let source_words = match (source, writer) {
        (ConditionSource::Object, Some(writer)) => format!(", written by {writer}"),
        (ConditionSource::Object, None) => ", in the object's status".to_owned(),
        (ConditionSource::Controller | ConditionSource::Computed, _) => String::new(),
    };
    let outdated = if *outdated { ", about an older generation" } else { "" };
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("{stated}{parent}{source_words}{outdated}{message}")
}
