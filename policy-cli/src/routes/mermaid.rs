//! Trees as a flowchart of Mermaid.

use super::{HostItem, ObjectItem, RoutesReport, RuleEffect, RuleItem, TreeItem};
use std::fmt::Write;

/// The flowchart of a report: the trees of a host, or all hosts with their roots.
pub(crate) fn flowchart(report: &RoutesReport) -> String {
    let mut chart = Chart { text: "flowchart TD\n".to_owned(), nodes: 0 };
    for host in &report.hosts {
        chart.host(host);
    }
    chart.text
}

struct Chart {
    text: String,
    nodes: usize,
}

impl Chart {
    fn host(&mut self, host: &HostItem) {
        let from = self.node(("([", "])"), &host.host);
        match &host.trees {
            Some(trees) => {
                for TreeItem { root, .. } in trees {
                    let to = self.node(("[", "]"), &root.object.to_string());
                    self.edge(&from, "", &to);
                    self.rules(root, &to);
                }
            }
            None => {
                for owner in &host.owners {
                    let to = self.node(("[", "]"), &owner.to_string());
                    self.edge(&from, "", &to);
                }
            }
        }
    }

    fn rules(&mut self, object: &ObjectItem, from: &str) {
        for rule in &object.rules {
            self.rule(rule, from);
        }
    }

    fn rule(&mut self, rule: &RuleItem, from: &str) {
        for child in &rule.children {
            let to = self.node(("[", "]"), &child.object.to_string());
            self.edge(from, &rule.path, &to);
            self.rules(child, &to);
        }
        for server in &rule.servers {
            let mut words = server.server.to_string();
            match (&server.problem, server.grants.as_slice()) {
                (Some(problem), _) => words.push_str(&format!("\n{problem}")),
                (None, []) if !server.not_known.is_empty() => {
                    words.push_str("\nwho may call is not visible to you");
                }
                (None, []) => words.push_str("\nnobody may call"),
                (None, grants) => {
                    words.extend(grants.iter().map(|grant| format!("\n{}", grant.by)));
                }
            }
            let to = self.node(("[[", "]]"), &words);
            self.edge(from, &rule.path, &to);
        }
        for refused in &rule.refused {
            let denied = if refused.not_known { "not known" } else { "denied" };
            let words = format!("{denied}: {}\n{}", refused.reason, refused.message);
            let to = self.node(("{{", "}}"), &words);
            self.edge(from, &rule.path, &to);
        }
        let word = match rule.effect {
            RuleEffect::Shadowed => "shadowed",
            RuleEffect::Inactive => "inactive",
            RuleEffect::Serves if rule.servers.is_empty() => "answered by no Server",
            RuleEffect::Serves
            | RuleEffect::Delegates
            | RuleEffect::Denied
            | RuleEffect::NotKnown => return,
        };
        let note = rule.note.as_deref().map(|note| format!("\n{note}")).unwrap_or_default();
        let to = self.node(("{{", "}}"), &format!("{word}{note}"));
        self.edge(from, &rule.path, &to);
    }

    /// Adds a node of a shape and returns its name.
    fn node(&mut self, (open, close): (&str, &str), words: &str) -> String {
        let name = format!("n{}", self.nodes);
        self.nodes = self.nodes.saturating_add(1);
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "  {name}{open}\"{}\"{close}", escaped(words));
        name
    }

    fn edge(&mut self, from: &str, words: &str, to: &str) {
        let label = match words {
            "" => String::new(),
            _ => format!("|\"{}\"|", escaped(words)),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "  {from} -->{label} {to}");
    }
}

/// Text within quotation marks. Whatever Mermaid or HTML reads as markup becomes an entity.
fn escaped(words: &str) -> String {
    let mut text = String::new();
    for c in words.chars() {
        match c {
            '\n' => text.push_str("<br/>"),
            '"' | '#' | '&' | '<' | '>' | '`' | ';' | '|' => {
                // Writing to a String cannot fail.
                let _ = write!(text, "#{};", u32::from(c));
            }
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_quotation_marks() {
        assert_eq!(escaped("/a\"]<b>\n#x"), "/a#34;]#60;b#62;<br/>#35;x");
    }
}
