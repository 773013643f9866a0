//! The table of all hosts, and the trees of one.

use super::{
    ClaimItem, GrantItem, HostItem, MissingItem, ObjectItem, RefusedItem, RoutesReport, RuleEffect,
    RuleItem, ServerItem, TreeItem,
};
use crate::authz::clients::need;
use crate::output::{self, Paint};
use std::fmt::Write;

impl RoutesReport {
    /// The table of all hosts; of one host its claims, its trees, and what is missing in them.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.dim(&self.source.to_string()));
        for missing in &self.not_known {
            let words = format!("not known in full: {missing} may not be listed everywhere");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", paint.notice(&words));
        }
        let detailed = self.hosts.iter().filter_map(|host| Some((host, host.trees.as_ref()?)));
        let mut one = false;
        for (host, trees) in detailed {
            one = true;
            text.push_str(&host_text(host, trees, self.not_known.is_empty(), paint));
        }
        if self.hosts.is_empty() {
            let _ = write!(text, "\n{}\n", paint.dim("no InboundRoute claims a host"));
        } else if !one {
            let header = ["HOST", "OWNER", "NAMESPACE", "CLAIMS", "RULES", "DENIED"];
            let rows = self.hosts.iter().map(host_row);
            let _ = write!(text, "\n{}", output::table_within(output::width(), header, rows));
        }
        text
    }
}

fn host_row(host: &HostItem) -> [String; 6] {
    let names = host.owners.iter().map(|owner| owner.name.clone()).collect::<Vec<_>>();
    let mut namespaces =
        host.owners.iter().map(|owner| owner.namespace.clone()).collect::<Vec<_>>();
    namespaces.dedup();
    let or_none = |words: Vec<String>| match words.is_empty() {
        true => "nobody".to_owned(),
        false => words.join(", "),
    };
    let active = host.claims.iter().filter(|claim| claim.active).count();
    let inactive = host.claims.len().saturating_sub(active);
    let claims = match inactive {
        0 => format!("{active} active"),
        _ => format!("{active} active, {inactive} inactive"),
    };
    let (rules, denied) = (host.rules.to_string(), host.denied.to_string());
    [host.host.clone(), or_none(names), or_none(namespaces), claims, rules, denied]
}

fn host_text(host: &HostItem, trees: &[TreeItem], all_seen: bool, paint: Paint) -> String {
    let mut text = format!("\n{}\n", paint.bold(&host.host));
    // Writing to a String cannot fail.
    if let Some(wildcard) = &host.covered_by {
        let _ = writeln!(text, "  covered by {wildcard}");
    }
    for owner in &host.owners {
        let _ = writeln!(text, "  held by {owner}");
    }
    if host.owners.is_empty() {
        let nobody = if all_seen { "nobody" } else { "nobody that is visible to you" };
        let words = format!("held by {nobody}: its paths are denied where InboundRoutes name it");
        let _ = writeln!(text, "  {}", paint.bad(&words));
    }
    for invalid in &host.invalid {
        let errors = invalid.errors.join("; ");
        let words = format!("{} is invalid and takes no effect: {errors}", invalid.object);
        let _ = writeln!(text, "  {}", paint.bad(&words));
    }
    let header = ["HOST", "PATH", "ROOT", "STATE", "SINCE", "REASON"];
    let width = output::width().map(|width| width.saturating_sub(2));
    let table = output::table_within(width, header, host.claims.iter().map(claim_row));
    text.push('\n');
    text.extend(table.lines().map(|line| format!("  {line}\n")));
    let mut steps = Vec::new();
    for tree in trees {
        let _ = write!(text, "\n{}\n", paint.bold(&tree.root.object.to_string()));
        for need_of_root in &tree.requires {
            let words = need(need_of_root).replace('\n', " ");
            let _ = writeln!(text, "every client must be: {words}");
        }
        let mut lines = Lines { text: &mut text, paint, steps: &mut steps };
        lines.rules(&tree.root, "");
    }
    text.push_str(&manifests(&steps, paint));
    text
}

fn claim_row(claim: &ClaimItem) -> [String; 6] {
    let state = if claim.active { "active" } else { "inactive" };
    let since = claim.claimed_at.clone().unwrap_or_else(|| "not recorded".to_owned());
    let reason = match (claim.reason, &claim.message) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        _ => String::new(),
    };
    let ClaimItem { host, path, root, .. } = claim;
    [host.clone(), path.clone(), root.to_string(), state.to_owned(), since, reason]
}

/// Writes a tree line by line.
struct Lines<'a> {
    text: &'a mut String,
    paint: Paint,
    /// Steps that come with a manifest, in the order of the tree.
    steps: &'a mut Vec<MissingItem>,
}

impl Lines<'_> {
    fn rules(&mut self, object: &ObjectItem, indent: &str) {
        for (place, rule) in object.rules.iter().enumerate() {
            let last = place.saturating_add(1) == object.rules.len();
            let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.line(&format!("{indent}{branch}"), &self.headline(rule));
            self.details(rule, &format!("{indent}{below}"));
        }
    }

    fn headline(&self, rule: &RuleItem) -> String {
        let note = rule.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        let effect = match rule.effect {
            RuleEffect::Serves if rule.servers.is_empty() => {
                self.paint.bad("answered by no Server")
            }
            RuleEffect::Serves => "answered by".to_owned(),
            RuleEffect::Delegates => "delegated to".to_owned(),
            RuleEffect::Denied => self.paint.bad("denied"),
            RuleEffect::NotKnown => self.paint.notice("denied, as far as it is visible to you"),
            RuleEffect::Shadowed => self.paint.notice("shadowed"),
            RuleEffect::Inactive => self.paint.notice("inactive"),
        };
        format!("{}  {effect}{note}", self.paint.bold(&rule.path))
    }

    fn details(&mut self, rule: &RuleItem, indent: &str) {
        for matched in &rule.matches {
            self.line(indent, &format!("for {matched}"));
        }
        for server in &rule.servers {
            self.server(server, indent);
        }
        for refused in &rule.refused {
            self.refused(refused, indent);
        }
        for (place, child) in rule.children.iter().enumerate() {
            let last = place.saturating_add(1) == rule.children.len();
            let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.line(&format!("{indent}{branch}"), &self.paint.bold(&child.object.to_string()));
            self.rules(child, &format!("{indent}{below}"));
        }
    }

    fn server(&mut self, server: &ServerItem, indent: &str) {
        let problem = server.problem.as_ref().map(|problem| format!(", which {problem}"));
        let words = format!("{}{}", server.server, problem.clone().unwrap_or_default());
        let words = if problem.is_some() { self.paint.bad(&words) } else { words };
        self.line(indent, &words);
        for grant in &server.grants {
            self.line(indent, &format!("  {}", grant_words(grant)));
        }
        for effect in &server.effects {
            self.line(indent, &format!("  changes: {effect}"));
        }
        for withheld in &server.withheld {
            let words = format!("  withheld: {}: {}", withheld.by, withheld.reason);
            self.line(indent, &self.paint.notice(&words));
        }
        for missing in &server.not_known {
            let words = format!(
                "  others may call by policies that are not visible to you: {missing} may not be listed"
            );
            self.line(indent, &self.paint.notice(&words));
        }
        if server.grants.is_empty() && server.not_known.is_empty() && problem.is_none() {
            self.line(indent, &self.paint.notice("  nobody may call: no policy grants it"));
        }
    }

    fn refused(&mut self, refused: &RefusedItem, indent: &str) {
        let words = format!("{}: {}", refused.reason, refused.message);
        self.line(indent, &self.paint.bad(&words));
        for step in &refused.missing {
            self.line(indent, &format!("  missing: {}", step.what));
            if step.manifest.is_some() && !self.steps.contains(step) {
                self.steps.push(step.clone());
            }
        }
    }

    fn line(&mut self, indent: &str, words: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{indent}{words}");
    }
}

fn grant_words(grant: &GrantItem) -> String {
    let GrantItem { by, inherited, who, .. } = grant;
    let through = if *inherited { ", on the Server" } else { "" };
    format!("may call: {who} ({by}{through})")
}

/// What would complete the delegations, as documents.
fn manifests(steps: &[MissingItem], paint: Paint) -> String {
    let mut text = String::new();
    for step in steps {
        let Some(yaml) = step.manifest.as_ref().and_then(|manifest| output::yaml(manifest).ok())
        else {
            continue;
        };
        if text.is_empty() {
            let words =
                "What is missing. A ReferenceGrant is applied, consent is added to its object.";
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}\n", paint.bold(words));
        }
        let _ = write!(text, "---\n# {}\n{yaml}", step.what);
    }
    text
}
