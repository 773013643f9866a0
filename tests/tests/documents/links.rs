//! Links between pages, and the anchors that they name.

use crate::pages::{Fault, Page, none, pages};
use policy_tests::sources::root;
use std::collections::BTreeMap;
use std::path::Path;

/// The anchors of a page, as a forge makes them of its headings.
pub(crate) fn anchors(page: &Page) -> Vec<String> {
    let headings = page.lines.iter().filter(|line| line.is_prose() && line.text.starts_with('#'));
    let mut anchors: Vec<String> = Vec::new();
    for heading in headings {
        let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let words = heading.text.trim_start_matches('#').trim().to_lowercase();
        let words = words.chars().filter(kept);
        let anchor: String = words.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = anchors.iter().filter(|earlier| **earlier == anchor).count();
        anchors.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    anchors
}

/// A path without `.` and `..`.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The links of a page, with what is wrong with them; and how many there are.
pub(crate) fn faults(page: &Page, all: &[Page]) -> (usize, Vec<Fault>) {
    let anchors: BTreeMap<&str, Vec<String>> =
        all.iter().map(|page| (page.path.as_str(), anchors(page))).collect();
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (mut links, mut faults) = (0, Vec::new());
    for line in page.lines.iter().filter(|line| line.is_prose()) {
        // A bracket in code is no link.
        let text: String = line.text.split('`').step_by(2).collect();
        for part in text.split("](").skip(1) {
            let link = part.split(')').next().unwrap_or_default();
            if link.starts_with("https:") {
                continue;
            }
            links += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if path.is_empty() {
                page.path.clone()
            } else {
                plain(&format!("{folder}/{path}"))
            };
            if !Path::new(&root()).join(&to).exists() {
                faults.push(page.fault(line, "link", link, "leads nowhere"));
                continue;
            }
            let known = anchors.get(to.as_str()).is_some_and(|it| it.iter().any(|it| it == anchor));
            if !anchor.is_empty() && !known {
                faults.push(page.fault(line, "anchor", link, "no heading has it"));
            }
        }
    }
    (links, faults)
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let all = pages();
    let (mut links, mut lost) = (0, Vec::new());
    for page in &all {
        let (count, faults) = faults(page, &all);
        links += count;
        lost.extend(faults);
    }
    assert!(links > 150, "{links}");
    none(lost);
}
