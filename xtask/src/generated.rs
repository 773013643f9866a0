//! Generated files: their content, their places, and whether they are up to date.

use crate::protobuf;
use anyhow::{Context, Result};
use policy_crds::render::{Profile, crds};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Generated files of one folder. Every file of that folder with the same extension belongs to the
/// group, so that a file that is no longer generated is noticed.
pub(crate) struct Group {
    /// Folder, from the workspace's root.
    pub(crate) folder: &'static str,
    /// Extension of the files, without the dot.
    pub(crate) extension: &'static str,
    /// Content by file name.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// Everything that is generated.
pub(crate) fn groups(root: &Path) -> Result<Vec<Group>> {
    let (folder, compiled) = ("proto/src/gen", protobuf::compile(&root.join("proto"))?);
    let code = Group { folder, extension: "rs", files: protobuf::generate(&compiled)? };
    let descriptors = Group { folder, extension: "bin", files: protobuf::descriptors(&compiled) };
    let mut groups = vec![code, descriptors];
    groups.extend(Profile::ALL.map(|profile| Group {
        folder: profile.folder(),
        extension: "yaml",
        files: crds(profile).into_iter().map(|(name, text)| (name, text.into_bytes())).collect(),
    }));
    Ok(groups)
}

impl Group {
    /// Writes the files and removes those that are no longer generated.
    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let folder = root.join(self.folder);
        fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
        for name in self.present(root)? {
            if !self.files.contains_key(&name) {
                let path = folder.join(&name);
                fs::remove_file(&path).with_context(|| format!("remove `{}`", path.display()))?;
            }
        }
        for (name, content) in &self.files {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("write `{}`", path.display()))?;
        }
        Ok(())
    }

    /// Differences between the folder and the generated content, one line for each file.
    #[cfg(test)]
    pub(crate) fn drift(&self, root: &Path) -> Result<Vec<String>> {
        let present = self.present(root)?;
        let mut lines = Vec::new();
        for name in present.iter().filter(|name| !self.files.contains_key(*name)) {
            lines.push(format!("{}/{name}: no longer generated", self.folder));
        }
        for (name, content) in &self.files {
            let found = if present.contains(name) {
                Some(fs::read(root.join(self.folder).join(name))?)
            } else {
                None
            };
            match found {
                None => lines.push(format!("{}/{name}: missing", self.folder)),
                Some(found) if found != *content => {
                    lines.push(format!("{}/{name}: out of date", self.folder));
                }
                Some(_) => {}
            }
        }
        Ok(lines)
    }

    fn present(&self, root: &Path) -> Result<Vec<String>> {
        let folder = root.join(self.folder);
        let entries =
            fs::read_dir(&folder).with_context(|| format!("read `{}`", folder.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == self.extension) {
                names.extend(path.file_name().and_then(|n| n.to_str()).map(str::to_owned));
            }
        }
        names.sort();
        Ok(names)
    }
}
