//! Output of results: tables for people, JSON and YAML for programs, colour on terminals only.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people.
    #[default]
    Table,
    /// One JSON document, or one per line for a stream of results.
    Json,
    /// One YAML document, or one after another for a stream of results.
    Yaml,
}

/// Output format of results whose tables have identities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WideFormat {
    /// A table for people, with identities as ACCOUNT.NAMESPACE
    #[default]
    Table,
    /// The table with whole identities
    Wide,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

impl WideFormat {
    /// The format without its width.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Table | Self::Wide => Format::Table,
            Self::Json => Format::Json,
            Self::Yaml => Format::Yaml,
        }
    }

    /// Returns a text with the identities of a mesh as tables show them. `suffix` is what they end in.
    pub(crate) fn identities(self, text: &str, suffix: &str) -> String {
        match self {
            Self::Wide => text.to_owned(),
            Self::Table | Self::Json | Self::Yaml => {
                let end = format!(".serviceaccount.identity.{suffix}");
                let words = text.split(' ').map(|word| {
                    word.split('\n').map(|word| {
                        let (bare, comma) =
                            word.strip_suffix(',').map_or((word, ""), |it| (it, ","));
                        // `*` alone would be any identity.
                        let short = bare.strip_suffix(&*end).filter(|it| it.contains('.'));
                        short.map_or_else(|| word.to_owned(), |short| format!("{short}{comma}"))
                    })
                });
                let lines = words.map(|lines| lines.collect::<Vec<String>>().join("\n"));
                lines.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Error of printing a result.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Io(#[from] io::Error),
    /// The result cannot be serialised as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The result cannot be serialised as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(String),
}

impl OutputError {
    /// True if the reader of standard output has closed it, which is not a failure of the command.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Json(error) => error.io_error_kind() == Some(io::ErrorKind::BrokenPipe),
            Self::Yaml(_) => false,
        }
    }
}

/// Prints `value` as JSON or YAML, or as formatted by `table`.
pub fn print<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    match format {
        Format::Table => text(&table(value)),
        Format::Json => {
            let mut json = serde_json::to_string_pretty(value)?;
            json.push('\n');
            text(&json)
        }
        Format::Yaml => text(&yaml(value)?),
    }
}

/// Prints one of several results: JSON on one line, YAML with a document marker.
pub fn print_next<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    match format {
        Format::Table => text(&table(value)),
        Format::Json => {
            let mut json = serde_json::to_string(value)?;
            json.push('\n');
            text(&json)
        }
        Format::Yaml => text(&format!("---\n{}", yaml(value)?)),
    }
}

/// Serialises `value` as YAML, ending with a line break.
///
/// # Errors
/// [`OutputError::Yaml`].
pub fn yaml<T: Serialize>(value: &T) -> Result<String, OutputError> {
    let mut yaml =
        serde_saphyr::to_string(value).map_err(|error| OutputError::Yaml(error.to_string()))?;
    if !yaml.ends_with('\n') {
        yaml.push('\n');
    }
    Ok(yaml)
}

/// Writes to standard output and flushes it.
pub fn text(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a note to standard error. Nothing more can be reported if that is closed.
pub(crate) fn print_note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{} {text}", Paint::stderr().notice("note:"));
}

/// Formats rows under a header, without borders, ending with a line break. Cells must not be
/// coloured, because their width is counted.
pub fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    table_within(None, header, rows)
}

/// Columns of the terminal, or those of `COLUMNS`; `None` if standard output is not a terminal,
/// because piped output is never wrapped.
pub fn width() -> Option<u16> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    stated.or_else(|| Some(rustix::termios::tcgetwinsize(out).ok()?.ws_col)).filter(|w| *w > 0)
}

/// Like [`table`], with cells wrapped so that no line is longer than `width`, as far as possible.
pub fn table_within<const N: usize>(
    width: Option<u16>,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    table_of(width, header, rows)
}

/// Like [`table_within`], with a number of columns that is not known at compile time.
pub(crate) fn table_of<'a>(
    width: Option<u16>,
    header: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
) -> String {
    let mut table = Table::new();
    if let Some(width) = width {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.load_style(presets::NOTHING).set_header(header.into_iter().map(Cell::new));
    for row in rows {
        table.add_row(row.into_iter().map(Cell::new));
    }
    if width.is_some() {
        keep_words_whole(&mut table);
    }
    let mut laid_out = String::new();
    for line in table.lines() {
        // The style leaves one space before the first column.
        laid_out.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
        laid_out.push('\n');
    }
    laid_out
}

/// Makes every column as wide as its longest word, so that lines break between words alone. A table may
/// then be wider than the terminal.
fn keep_words_whole(table: &mut Table) {
    let rows = table.header().into_iter().chain(table.row_iter());
    let mut widest: Vec<usize> = Vec::new();
    for row in rows {
        for (column, cell) in row.cell_iter().enumerate() {
            let content = cell.content();
            let word = content.split_whitespace().map(|word| word.chars().count()).max();
            let word = word.unwrap_or_default();
            match widest.get_mut(column) {
                Some(known) => *known = word.max(*known),
                None => widest.push(word),
            }
        }
    }
    for (column, word) in widest.into_iter().enumerate() {
        let Some(column) = table.column_mut(column) else { continue };
        // With the blanks around a cell.
        let word = u16::try_from(word.saturating_add(2)).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(word)));
    }
}

/// Colours, if enabled.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colours for standard output: only on a terminal, and not under `NO_COLOR` or `TERM=dumb`.
    pub fn stdout() -> Self {
        Self { on: io::stdout().is_terminal() && wanted() }
    }

    /// Colours for standard error, on the same conditions.
    pub fn stderr() -> Self {
        Self { on: io::stderr().is_terminal() && wanted() }
    }

    /// No colours.
    pub fn plain() -> Self {
        Self { on: false }
    }

    /// True if colours are enabled.
    pub fn is_on(self) -> bool {
        self.on
    }

    /// Styles a success.
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Styles a denial or a failure.
    pub fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Styles a warning.
    pub fn notice(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Styles a heading.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Styles less important text.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn wanted() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !dumb && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_has_no_lines() {
        let rows = [["a".to_owned(), "long cell".to_owned()], ["bcd".to_owned(), "x".to_owned()]];
        let text = table(["ONE", "TWO"], rows);
        assert_eq!(text, "ONE  TWO\na    long cell\nbcd  x\n");
    }

    #[test]
    fn long_cells_are_wrapped_where_there_is_a_width() {
        let rows = || [["a".to_owned(), "one two three four five six".to_owned()]];
        let text = table_within(Some(20), ["ONE", "TWO"], rows());
        assert_eq!(text, "ONE  TWO\na    one two three\n     four five six\n");
        let text = table_within(None, ["ONE", "TWO"], rows());
        assert_eq!(text, "ONE  TWO\na    one two three four five six\n");
    }

    #[test]
    fn no_word_is_broken_however_narrow_the_terminal() {
        let long = "cart.shop.serviceaccount.identity.portcullis.cluster.local".to_owned();
        let text = table_within(Some(30), ["ONE", "TWO"], [["a b c".to_owned(), long.clone()]]);
        assert!(text.lines().any(|line| line.contains(&long)), "{text}");
    }

    #[test]
    fn identities_of_the_mesh_are_short_unless_they_are_asked_for_whole() {
        let text = "cart.shop.serviceaccount.identity.portcullis.cluster.local\nand \
                    *.bank.serviceaccount.identity.linkerd.cluster.local, any";
        let short = "cart.shop\nand *.bank.serviceaccount.identity.linkerd.cluster.local, any";
        let suffix = "portcullis.cluster.local";
        assert_eq!(WideFormat::Table.identities(text, suffix), short);
        assert_eq!(WideFormat::Wide.identities(text, suffix), text);
    }

    #[test]
    fn plain_paint_adds_nothing() {
        assert_eq!(Paint::plain().bad("deny"), "deny");
    }
}
