//! A policy as indented lines for people.

use super::{GrantView, PolicyView, unmatched};
use policy_core::Unmatched;

impl PolicyView {
    /// The policy as indented lines for people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("owner      {}", self.owner)];
        lines.push(format!("protocol   {}", self.protocol));
        if let Some(reason) = &self.deny {
            lines.push(format!("denied     {reason}"));
        }
        if self.paths == "raw" {
            lines.push("paths      raw".to_owned());
        }
        if !self.informational_headers {
            lines.push("headers    no informational headers".to_owned());
        }
        if self.reuse_without_body {
            lines.push("upstream   used again after requests without a body alone".to_owned());
        }
        lines.extend(self.rate_limits.iter().map(|limit| format!("limit      {limit}")));
        lines.extend(self.effects.iter().map(|effect| format!("effect     {effect}")));
        for exemption in &self.exemptions {
            let request = exemption.request.as_deref().unwrap_or("connections");
            lines.push(format!("exempt     {request}  {}", exemption.authorization.words()));
        }
        grants(&mut lines, "", &self.authorizations, &self.withheld);
        for route in &self.routes {
            let origin = route.delegated.as_ref().unwrap_or(&route.origin);
            lines.push(format!("route      {origin}{}", on_hosts(&route.hosts)));
            for rule in &route.rules {
                lines.extend(rule.matches.iter().map(|wanted| format!("  match    {wanted}")));
                lines.extend(rule.effects.iter().map(|effect| format!("  effect   {effect}")));
            }
            grants(&mut lines, "  ", &route.authorizations, &route.withheld);
            if route.inherits_server && !self.authorizations.is_empty() {
                lines.push("  allow    clients that the port's grants admit".to_owned());
            }
        }
        lines
            .extend(self.hosts.iter().map(|h| format!("unmatched  {} on {}", h.unmatched, h.host)));
        if !self.routes.is_empty() || self.otherwise != unmatched(Unmatched::DefaultRoute) {
            lines.push(format!("unmatched  {}", self.otherwise));
        }
        let mut text = lines.join("\n");
        text.push('\n');
        text
    }
}

impl GrantView {
    fn words(&self) -> String {
        let requires = match self.requires.as_slice() {
            [] => "everybody".to_owned(),
            requires => requires.join(" and "),
        };
        let audit = if self.audit { ", audited" } else { "" };
        format!("{requires}{audit} ({})", self.source)
    }
}

fn grants(lines: &mut Vec<String>, indent: &str, grants: &[GrantView], withheld: &[String]) {
    let width = 11_usize.saturating_sub(indent.len());
    let mut line = |word: &str, text: &str| lines.push(format!("{indent}{word:width$}{text}"));
    if grants.is_empty() && indent.is_empty() {
        line("allow", "nobody");
    }
    for grant in grants {
        line("allow", &grant.words());
    }
    for grant in withheld {
        line("withheld", grant);
    }
}

fn on_hosts(hosts: &[String]) -> String {
    if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(", ")) }
}
