//! Report of a measurement: tables for people, the same as JSON, and Markdown made of that.

use crate::stats::Spread;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Everything that a measurement found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its name, as the command's.
    pub measurement: String,
    /// [`crate::machine::here`].
    pub machine: Value,
    /// Versions of the peers, by name.
    #[serde(default)]
    pub versions: Value,
    /// Notes beside the tables: what was missing, what was done instead.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Results.
    pub tables: Vec<Table>,
    /// Single values, for whoever wants to reckon with them.
    #[serde(default)]
    pub raw: Value,
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// The heads, with units.
    pub columns: Vec<String>,
    /// As many cells per row as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// Content of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A median and how far the rounds lay apart.
    Spread(Spread),
    /// One value.
    Number(f64),
    /// Anything else; empty where there is nothing to say.
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Text("–".to_owned()) }
    }
}

impl From<Spread> for Cell {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Self::Text("–".to_owned()), Into::into)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value) => digits(*value),
            Self::Spread(Spread { median, low, high }) => {
                let (low, high) = (digits(*low), digits(*high));
                let median = digits(*median);
                if low == high { median } else { format!("{median} ({low} to {high})") }
            }
        }
    }
}

/// Three digits that count; whole numbers from a hundred, in groups of three.
fn digits(value: f64) -> String {
    let size = value.abs();
    if size < 1e-9 {
        return "0".to_owned();
    }
    match size {
        ..0.1 => format!("{value:.4}"),
        0.1..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

fn grouped(value: f64) -> String {
    let plain = format!("{value:.0}");
    let (sign, plain) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Another row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// For a terminal: columns in line, and with `markdown` as a Markdown table.
    pub fn render(&self, markdown: bool) -> String {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        if markdown {
            let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
            let body: String = rows.iter().map(|row| line(row)).collect();
            return format!("{}{rule}{body}", line(&self.columns));
        }
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.chain(self.columns.get(column)).map(|cell| cell.chars().count()).max()
        };
        let line = |cells: &[String]| {
            let padded = cells.iter().enumerate().map(|(column, cell)| {
                let wide = width(column).unwrap_or(0);
                let gap = " ".repeat(wide - cell.chars().count().min(wide));
                if column == 0 { format!("{cell}{gap}") } else { format!("{gap}{cell}") }
            });
            let text = padded.collect::<Vec<_>>().join("  ");
            format!("{}\n", text.trim_end())
        };
        std::iter::once(&self.columns).chain(&rows).map(|row| line(row)).collect()
    }
}

impl Document {
    /// An empty one of this measurement, made here and now.
    pub fn new(measurement: &str) -> Self {
        Self {
            measurement: measurement.to_owned(),
            machine: crate::machine::here(),
            versions: Value::Null,
            notes: Vec::new(),
            tables: Vec::new(),
            raw: Value::Null,
        }
    }

    /// Prints tables and notes, and writes the JSON where it is wanted.
    pub fn finish(&self, json: Option<&Path>) -> anyhow::Result<()> {
        for table in &self.tables {
            println!("\n{}\n{}", table.title, table.render(false));
        }
        for note in &self.notes {
            println!("{note}");
        }
        let Some(path) = json else { return Ok(()) };
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }

    /// One that was written before.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Its part of a page: a heading, where it was measured, notes, tables.
    pub fn markdown(&self) -> String {
        let of = |name: &str| match self.machine.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "unknown".to_owned(),
        };
        let mut text = format!(
            "## bench/{}\n\n{}, {} cores, Linux {}; commit {}; {}.\n",
            self.measurement,
            of("cpu"),
            of("cores"),
            of("kernel"),
            of("commit"),
            of("rustc"),
        );
        if let Some(versions) = self.versions.as_object() {
            let all = versions
                .iter()
                .map(|(name, version)| format!("{name}: {}", version.as_str().unwrap_or_default()));
            text += &format!("{}.\n", all.collect::<Vec<_>>().join("; "));
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        for table in &self.tables {
            text += &format!("\n### {}\n\n{}", table.title, table.render(true));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("What it costs", &["case", "µs"]);
        let spread = Spread { median: 9.876, low: 9.5, high: 10.12 };
        table.row(["base".into(), spread.into()]);
        table.row(["10,000 rules".into(), 12.0.into()]);
        table
    }

    #[test]
    fn columns_are_in_line() {
        let expected = "case                           µs\n\
                        base          9.88 (9.50 to 10.1)\n\
                        10,000 rules                 12.0\n";
        assert_eq!(table().render(false), expected);
    }

    #[test]
    fn markdown_is_what_a_page_shows() {
        let expected = "| case | µs |\n|---|---|\n| base | 9.88 (9.50 to 10.1) |\n\
                        | 10,000 rules | 12.0 |\n";
        assert_eq!(table().render(true), expected);
    }

    #[test]
    fn three_digits_count_and_large_ones_are_grouped() {
        let text = |value: f64| Cell::from(value).text();
        let shown = [0.0, 0.01234, 0.5, 1.0, 12.34, 123.4, -1234.5, 1_234_567.0].map(text);
        let expected = ["0", "0.0123", "0.50", "1.00", "12.3", "123", "-1,234", "1,234,567"];
        assert_eq!(shown, expected);
        assert_eq!(Cell::from(f64::NAN).text(), "–");
        assert_eq!(Cell::from(None::<f64>).text(), "–");
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let directory = std::env::temp_dir().join(format!("report-{}", std::process::id()));
        let mut document = Document::new("example");
        document.notes.push("no envoy".to_owned());
        document.tables.push(table());
        document.finish(Some(&directory)).unwrap();
        let read = Document::read(&directory).unwrap();
        std::fs::remove_file(&directory).unwrap();
        assert_eq!(read, document);
        assert!(read.markdown().contains("### What it costs\n\n| case | µs |"));
    }
}
