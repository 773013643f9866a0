//! The commands of a page, in its order, and what it says that each prints.

use policy_tests::sources::root;
use std::fs;

/// Commands that are pasted in one go: a block of the language `sh`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Step {
    /// File and line of the first command.
    pub place: String,
    /// The heading of the second level above it.
    pub section: String,
    pub commands: String,
    /// Exit code of the last command: `exit=N` after the language.
    pub exit: i32,
    /// The block of the language `text` that follows, with `…` for what is not the same twice.
    pub prints: Option<String>,
}

/// The steps of a page of the repository.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let found = read(page, &text);
    assert!(!found.is_empty(), "{page} has no commands");
    found
}

/// The steps of those sections whose heading begins with one of these.
pub(crate) fn sections(page: &str, headings: &[&str]) -> Vec<Step> {
    let mut found = steps(page);
    found.retain(|step| headings.iter().any(|heading| step.section.starts_with(heading)));
    for heading in headings {
        let any = found.iter().any(|step| step.section.starts_with(heading));
        assert!(any, "{page}: no command below `{heading}`");
    }
    found
}

/// The steps of a page above its first heading of the second level.
pub(crate) fn before_sections(page: &str) -> Vec<Step> {
    let mut found = steps(page);
    found.retain(|step| step.section.is_empty());
    assert!(!found.is_empty(), "{page}: no command before its sections");
    found
}

fn read(page: &str, text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut section = String::new();
    // Whether what follows may still be what the last commands print.
    let mut open = false;
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
            open = false;
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> =
            lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```").collect();
        let block = block.join("\n");
        let (language, more) = language.split_once(' ').unwrap_or((language, ""));
        match (language, steps.last_mut()) {
            ("sh", _) => {
                let exit = more.strip_prefix("exit=").map_or(0, |code| code.parse().unwrap());
                let place = format!("{page}:{}", number + 1);
                let section = section.clone();
                steps.push(Step { place, section, commands: block, exit, prints: None });
                open = true;
            }
            ("text", Some(step)) if open => {
                step.prints = Some(block);
                open = false;
            }
            _ => open = false,
        }
    }
    steps
}

#[test]
fn a_page_is_read_as_commands_and_what_they_print() {
    let page = "# A\n\n## 1. One\n```sh\necho a\necho b\n```\nprints\n```text\na\nb\n```\n\
                ```text\nno output\n```\n```sh exit=3\nfalse\n```\n```yaml\nx: 1\n```\n\
                ```text\nnot of it\n```\n## 2. Two\n```text\nneither\n```\n";
    let step = |line: u32, commands: &str, exit, prints: Option<&str>| Step {
        place: format!("p:{line}"),
        section: "1. One".to_owned(),
        commands: commands.to_owned(),
        exit,
        prints: prints.map(str::to_owned),
    };
    let expected = [step(5, "echo a\necho b", 0, Some("a\nb")), step(17, "false", 3, None)];
    assert_eq!(read("p", page), expected);
}
