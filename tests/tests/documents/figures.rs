//! The figures of README.md, CHANGELOG.md and docs/performance.md are those of docs/measurements.md.

use crate::pages::cells;
use policy_tests::sources::root;

fn text(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

/// The rows of the table of what was asked.
fn asked(page: &str) -> Vec<String> {
    let text = text(page);
    let rows = text.lines().skip_while(|line| *line != "| figure | asked | measured | reached |");
    rows.take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
}

/// The first number of a cell: 7.41 of `7.41 (7.40 to 7.50)`.
fn number(cell: &str) -> f64 {
    cell.split(' ').next().unwrap_or_default().replace(',', "").parse().unwrap()
}

/// A figure of the table of what was asked.
fn measured(figure: &str) -> f64 {
    let begin = format!("| {figure} |");
    let rows = asked("docs/measurements.md");
    let row = rows.iter().find(|row| row.starts_with(&begin));
    number(&cells(row.unwrap_or_else(|| panic!("no figure {figure}")))[2])
}

/// A cell of the table below a heading, by the name in its first column.
fn cell(heading: &str, name: &str, column: &str) -> f64 {
    let text = text("docs/measurements.md");
    let (_, below) = text.split_once(heading).unwrap_or_else(|| panic!("no heading {heading}"));
    let rows: Vec<Vec<String>> = below
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    let place = rows[0].iter().position(|head| head == column).unwrap();
    number(&rows.iter().find(|row| row[0] == name).unwrap()[place])
}

#[test]
fn the_figures_of_the_readme_and_of_the_changelog_are_those_that_were_measured() {
    let (one, many) = ("resident under load, 1 rule, MB", "resident under load, 10,000 rules, MB");
    let base = "### HTTP/1.1, 1 rule (`base`)";
    let change = measured("one of 10,000 rules changes: CPU of the proxy, ms");
    let stated = [
        (
            "README.md",
            format!("{:.0} µs of processor time", cell(base, "Portcullis", "CPU, µs each")),
        ),
        (
            "README.md",
            format!("{:.2} of HAProxy's", measured("HTTP/1.1, 1 rule: CPU of HAProxy's")),
        ),
        ("README.md", format!("{:.1} MB with one rule", measured(one))),
        ("README.md", format!("{:.1} MB with 10,000", measured(many))),
        ("README.md", format!("(HAProxy: {:.1} MB)", cell(base, "HAProxy", "MB"))),
        ("CHANGELOG.md", format!("with 10,000 rules: {:.1} MB", measured(many))),
        ("CHANGELOG.md", format!("costs {change:.1} ms of processor time")),
    ];
    for (page, figure) in stated {
        assert!(text(page).contains(&figure), "{page} does not say `{figure}`");
    }
}

#[test]
fn both_pages_of_measurements_have_the_same_table_of_what_was_asked() {
    let rows = asked("docs/measurements.md");
    assert!(rows.len() > 30, "{rows:?}");
    assert_eq!(rows, asked("docs/performance.md"));
}
