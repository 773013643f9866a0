//! The modules of one compiled target, read from its first file on.

use super::syntax::{Reference, Syntax};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Index of a module in [`Modules::all`].
pub(crate) type Id = usize;

/// One module, in a file of its own or inside of one.
#[derive(Debug)]
pub(crate) struct Module {
    /// The file that holds its code.
    pub(crate) file: PathBuf,
    /// The module that declares it; none for the root.
    pub(crate) parent: Option<Id>,
    /// The module directly below the root that this one belongs to; none for the root.
    pub(crate) top: Option<String>,
    pub(crate) children: BTreeMap<String, Id>,
}

/// Every module of a target and the paths that they name, each with the module that names it.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
    pub(crate) references: Vec<(Id, Reference)>,
    /// Texts in quotes.
    pub(crate) texts: BTreeSet<String>,
}

impl Modules {
    /// Reads the target that begins with the file `first`.
    ///
    /// # Errors
    /// A file that is missing, cannot be read or is not Rust.
    pub(crate) fn read(first: &Path) -> Result<Self> {
        let mut modules = Modules::default();
        let root = modules.add(None, "", first);
        let folder = first.parent().context("a file is in a folder")?;
        modules.read_file(root, first, folder)?;
        Ok(modules)
    }

    fn add(&mut self, parent: Option<Id>, name: &str, file: &Path) -> Id {
        let id = self.all.len();
        let above = parent.and_then(|parent| self.all.get(parent));
        let top = above.map(|above| above.top.clone().unwrap_or_else(|| name.to_owned()));
        self.all.push(Module { file: file.to_owned(), parent, top, children: BTreeMap::new() });
        if let Some(above) = parent.and_then(|parent| self.all.get_mut(parent)) {
            above.children.insert(name.to_owned(), id);
        }
        id
    }

    /// Reads the file of a module, whose children are in `folder`.
    fn read_file(&mut self, id: Id, file: &Path, folder: &Path) -> Result<()> {
        let shown = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("read {shown}"))?;
        let syntax = Syntax::read(&text).with_context(|| format!("parse {shown}"))?;
        if syntax.only_in_tests {
            return Ok(());
        }
        for declared in &syntax.declarations {
            let Some(holder) = self.inside(id, &declared.scope) else { continue };
            let folder =
                declared.scope.iter().fold(folder.to_owned(), |path, name| path.join(name));
            if declared.inline {
                self.add(Some(holder), &declared.name, file);
            } else {
                // The path of an attribute begins where the file is, or inside of the modules in it.
                let base = if declared.scope.is_empty() { file.parent() } else { None };
                let named = declared.path.as_ref().map(|path| base.unwrap_or(&folder).join(path));
                self.read_child(holder, &declared.name, named, &folder)?;
            }
        }
        self.texts.extend(syntax.texts);
        for reference in syntax.references {
            if let Some(holder) = self.inside(id, &reference.scope) {
                self.references.push((holder, reference));
            }
        }
        Ok(())
    }

    /// Reads a module that is declared in one file and written in another.
    fn read_child(
        &mut self,
        parent: Id,
        name: &str,
        named: Option<PathBuf>,
        folder: &Path,
    ) -> Result<()> {
        let inner = folder.join(name);
        let (beside, below) = (folder.join(format!("{name}.rs")), inner.join("mod.rs"));
        let (file, children) = match named {
            Some(file) => {
                let children = file.parent().map(Path::to_owned).unwrap_or_default();
                (file, children)
            }
            None if beside.is_file() => (beside, inner),
            None if below.is_file() => (below, inner),
            None => bail!("neither {} nor {} is there", beside.display(), below.display()),
        };
        if is_generated(&file) {
            return Ok(());
        }
        let id = self.add(Some(parent), name, &file);
        self.read_file(id, &file, &children)
    }

    /// The module that the names lead to, below another one.
    fn inside(&self, from: Id, names: &[String]) -> Option<Id> {
        names.iter().try_fold(from, |id, name| self.all.get(id)?.children.get(name).copied())
    }
}

/// True if a file is in a folder of generated code.
fn is_generated(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "gen")
}
