//! The tables of deliberate differences from Linkerd in a page of the documentation, made from the
//! list in policy-engine.

use anyhow::{Context, Result};
use policy_engine::compatibility::{DIFFERENCES, Difference, Restoration, SeenIn};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The page that has the tables.
const PAGE: &str = "docs/compatible.md";

/// A table in a page, between two comments that name it.
pub(crate) struct Table {
    name: &'static str,
    content: String,
}

/// The tables: in messages with a flag, in messages without one, and elsewhere.
pub(crate) fn tables() -> Vec<Table> {
    let of = |name, wanted: fn(&Difference) -> bool| {
        let mut content = String::from(
            "| difference | matter | Linkerd | Portcullis | Linkerd's behaviour by |\n\
             |---|---|---|---|---|\n",
        );
        for difference in DIFFERENCES.iter().filter(|difference| wanted(difference)) {
            let Difference { name, matter, linkerd, portcullis, .. } = difference;
            // Writing to a String cannot fail.
            let _ = writeln!(
                content,
                "| `{name}` | {matter} | {linkerd} | {portcullis} | {} |",
                restoration(difference)
            );
        }
        Table { name, content }
    };
    vec![
        of("with a flag", |it| it.seen_in == SeenIn::Messages && it.flag().is_some()),
        of("without a flag", |it| it.seen_in == SeenIn::Messages && it.flag().is_none()),
        of("elsewhere", |it| it.seen_in != SeenIn::Messages),
    ]
}

fn restoration(difference: &Difference) -> String {
    match (difference.flag(), difference.restoration) {
        (Some((flag, value)), _) => format!("`--{flag}={value}`"),
        (None, Restoration::Elsewhere(setting)) => setting.to_owned(),
        (None, Restoration::None(reason)) => format!("– {reason}"),
        (None, Restoration::Flag { .. } | Restoration::Behaviour(_)) => String::new(),
    }
}

impl Table {
    /// Writes the table into the page.
    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(PAGE);
        let page = self.placed(&path)?;
        fs::write(&path, page).with_context(|| format!("write `{}`", path.display()))
    }

    /// A line if the page does not have the table as it is made.
    #[cfg(test)]
    pub(crate) fn drift(&self, root: &Path) -> Result<Option<String>> {
        let path = root.join(PAGE);
        let same = fs::read_to_string(&path)? == self.placed(&path)?;
        Ok((!same).then(|| format!("{PAGE}: the table `{}` is out of date", self.name)))
    }

    /// The page with the table in its place.
    fn placed(&self, path: &Path) -> Result<String> {
        let page =
            fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))?;
        let begin = format!("<!-- generated: {} -->\n", self.name);
        let end = "<!-- end -->";
        let missing = || format!("{PAGE}: no `{}` and `{end}`", begin.trim_end());
        let (before, rest) = page.split_once(&begin).with_context(missing)?;
        let (_, after) = rest.split_once(end).with_context(missing)?;
        Ok(format!("{before}{begin}{}{end}{after}", self.content))
    }
}
