//! The manifest files below a directory, and their contents.

use super::input::Manifests;
use super::kustomization::{NamedFiles, named_files};
use super::passed_over::{
    PART_NOTE, PassedOver, chart_around, chart_note, is_chart, kustomization_note, passed_over,
};
use crate::source::definition::SourceError;
use crate::source::diagnostic::{Diagnostic, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

/// Random keys, unknown to authors of files, so that no change can be made to look like none.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A hash of what was read, within this process. Never 0, which is nothing at all.
pub(super) fn keyed_hash(fill: impl FnOnce(&mut dyn Hasher)) -> u64 {
    let mut hasher = KEYS.build_hasher();
    fill(&mut hasher);
    hasher.finish().max(1)
}

/// The files below a directory.
#[derive(Debug, Default)]
pub struct Scan {
    /// Manifest files by path.
    pub(super) files: BTreeMap<PathBuf, FileContent>,
    /// Times at which the files that are empty were written. Two looks between which such a file was
    /// filled and truncated again differ by it.
    pub(super) emptied: BTreeMap<PathBuf, SystemTime>,
    /// Paths of directories, or possible directories, that could not be listed: their content is
    /// unknown, not gone.
    pub(super) unlisted: BTreeSet<PathBuf>,
    /// Files that are passed over because a kustomization has them as parts.
    pub(super) parts: BTreeSet<PathBuf>,
    /// Errors of the scan, and notes about files that are passed over.
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Scan {
    /// A fingerprint, equal for scans with the same result. Never 0.
    pub fn fingerprint(&self) -> u64 {
        keyed_hash(|mut hasher| {
            self.files.hash(&mut hasher);
            self.emptied.hash(&mut hasher);
            self.unlisted.hash(&mut hasher);
            self.parts.hash(&mut hasher);
            for diagnostic in &self.diagnostics {
                diagnostic.to_string().hash(&mut hasher);
            }
        })
    }

    /// The contents of the files that could be read.
    pub fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.files.values().filter_map(|content| match content {
            FileContent::Bytes(bytes) => Some(bytes.as_slice()),
            FileContent::Unusable(_) => None,
        })
    }

    /// The files with their contents, or why one cannot be used.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Result<&[u8], &str>)> {
        self.files.iter().map(|(path, content)| {
            let content = match content {
                FileContent::Bytes(bytes) => Ok(bytes.as_slice()),
                FileContent::Unusable(reason) => Err(reason.as_str()),
            };
            (path.as_path(), content)
        })
    }

    /// Directories that could not be read, in words.
    pub fn problems(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|found| found.severity == Severity::Error)
    }

    /// Notes about files that are passed over, because another tool renders manifests from them.
    pub fn notes(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|found| found.severity == Severity::Note)
    }

    /// True if a file is empty.
    pub fn has_empty_file(&self) -> bool {
        !self.emptied.is_empty()
    }
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum FileContent {
    /// These bytes.
    Bytes(Vec<u8>),
    /// It cannot be used, for this reason.
    Unusable(String),
}

/// Suffix of files that are never manifests: expectations of `portcullis`, which lie beside them.
const NOT_MANIFESTS: &str = "expectations.yaml";

/// Reads all inputs, and everything below those that are directories. Hidden files are skipped, and so
/// are sources of Helm and kustomize, with a note. So are files that a kustomization uses as patches or
/// data, where they are at or below its folder, are no inputs themselves and no resources of any.
///
/// # Errors
/// If an input itself cannot be read.
pub fn scan(inputs: &[Manifests], file_bytes: u64) -> Result<Scan, SourceError> {
    let mut scanner = Scanner { file_bytes, ..Scanner::default() };
    for input in inputs {
        match input {
            Manifests::Path(path) => scanner.root(path)?,
            Manifests::Text { name, bytes } => {
                let content = FileContent::Bytes(bytes.to_vec());
                scanner.scan.files.insert(name.clone(), content);
            }
        }
    }
    Ok(scanner.without_parts())
}

#[derive(Default)]
struct Scanner {
    file_bytes: u64,
    /// Canonical paths of the directories being read, outermost first.
    directories: Vec<PathBuf>,
    /// Canonical paths of the files read.
    seen: BTreeSet<PathBuf>,
    /// The outermost chart around the directory that is being read.
    chart: Option<PathBuf>,
    /// Charts with a note.
    charts: BTreeSet<PathBuf>,
    /// Canonical paths of files that kustomizations use as parts.
    parts: BTreeSet<PathBuf>,
    /// Canonical paths of files that are read nonetheless: inputs, and resources of kustomizations.
    manifests: BTreeSet<PathBuf>,
    scan: Scan,
}

impl Scanner {
    /// Returns the scan without the files that kustomizations use as parts.
    fn without_parts(mut self) -> Scan {
        let parts: BTreeSet<PathBuf> = self.parts.difference(&self.manifests).cloned().collect();
        if parts.is_empty() {
            return self.scan;
        }
        let is_part = |path: &&PathBuf| {
            fs::canonicalize(path).is_ok_and(|canonical| parts.contains(&canonical))
        };
        let passed: BTreeSet<PathBuf> = self.scan.files.keys().filter(is_part).cloned().collect();
        for path in &passed {
            self.scan.files.remove(path);
            self.scan.emptied.remove(path);
            self.note(path, PART_NOTE.to_owned());
        }
        self.scan.parts = passed;
        self.scan
    }

    fn root(&mut self, root: &Path) -> Result<(), SourceError> {
        let unreadable =
            |error| SourceError::Unreadable { path: root.display().to_string(), error };
        let metadata = fs::metadata(root).map_err(unreadable)?;
        self.chart = chart_around(root);
        let canonical = fs::canonicalize(root).map_err(unreadable)?;
        if metadata.is_file() {
            self.manifests.insert(canonical);
            self.file(root.to_owned());
            return Ok(());
        }
        let entries = list(root).map_err(unreadable)?;
        self.directories = vec![canonical];
        self.below(root, entries);
        Ok(())
    }

    /// Reads the entries of a directory, which may be a chart.
    fn below(&mut self, directory: &Path, entries: Vec<PathBuf>) {
        let around = self.chart.clone();
        if around.is_none() && is_chart(directory) {
            self.chart = Some(directory.to_owned());
        }
        self.entries(entries);
        self.chart = around;
    }

    fn entries(&mut self, entries: Vec<PathBuf>) {
        for path in entries {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.directory(&path),
                Ok(metadata) if metadata.is_file() && is_manifest(&path) => self.file(path),
                // Sockets, pipes and devices are no manifests, whatever they are called.
                Ok(_) => {}
                Err(error) if is_manifest(&path) => {
                    let reason = format!("cannot be read: {error}");
                    self.scan.files.insert(path, FileContent::Unusable(reason));
                }
                // It may have been a directory, or a link to one: what was in it is unknown, not gone.
                Err(error) => {
                    self.report_error(&path, format!("cannot be read: {error}"));
                    self.scan.unlisted.insert(path);
                }
            }
        }
    }

    fn directory(&mut self, path: &Path) {
        let listed = fs::canonicalize(path).and_then(|canonical| Ok((canonical, list(path)?)));
        match listed {
            Ok((canonical, _)) if self.directories.contains(&canonical) => {
                self.report_error(
                    path,
                    "symbolic link leads back to a directory above it".to_owned(),
                );
                self.scan.unlisted.insert(path.to_owned());
            }
            Ok((canonical, entries)) => {
                self.directories.push(canonical);
                self.below(path, entries);
                self.directories.pop();
            }
            Err(error) => {
                self.report_error(path, format!("directory cannot be listed: {error}"));
                self.scan.unlisted.insert(path.to_owned());
            }
        }
    }

    fn file(&mut self, path: PathBuf) {
        // The same file by two names is read once, under the first.
        let fresh = fs::canonicalize(&path).is_ok_and(|canonical| self.seen.insert(canonical));
        if !fresh {
            return;
        }
        let content = read(&path, self.file_bytes);
        let chart = self.chart.clone();
        let over = match &content {
            FileContent::Bytes(bytes) => passed_over(&path, bytes, chart.as_deref()),
            FileContent::Unusable(_) => None,
        };
        match over {
            None => {
                if matches!(&content, FileContent::Bytes(bytes) if bytes.is_empty()) {
                    let written = fs::metadata(&path).and_then(|metadata| metadata.modified());
                    self.scan
                        .emptied
                        .insert(path.clone(), written.unwrap_or(SystemTime::UNIX_EPOCH));
                }
                self.scan.files.insert(path, content);
            }
            Some(PassedOver::Kustomization) => {
                if let FileContent::Bytes(bytes) = &content {
                    let NamedFiles { parts, resources } = named_files(&path, bytes);
                    self.parts.extend(parts);
                    self.manifests.extend(resources);
                }
                self.note(&path, kustomization_note(&path));
            }
            Some(PassedOver::Chart(folder)) => {
                if self.charts.insert(folder.to_owned()) {
                    self.note(folder, chart_note(folder));
                }
            }
        }
    }

    fn note(&mut self, path: &Path, message: String) {
        let file: Arc<str> = path.display().to_string().into();
        let note = Diagnostic::about_file(&file, message);
        self.scan.diagnostics.push(Diagnostic { severity: Severity::Note, ..note });
    }

    fn report_error(&mut self, path: &Path, message: String) {
        let file: Arc<str> = path.display().to_string().into();
        self.scan.diagnostics.push(Diagnostic::about_file(&file, message));
    }
}

fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let reserved = name == NOT_MANIFESTS || name.ends_with(&format!(".{NOT_MANIFESTS}"));
    ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known)) && !reserved
}

fn read(path: &Path, limit: u64) -> FileContent {
    match read_bounded(path, limit) {
        Ok(Some(bytes)) => FileContent::Bytes(bytes),
        Ok(None) => FileContent::Unusable(format!("larger than the limit of {limit} bytes")),
        Err(error) => FileContent::Unusable(format!("cannot be read: {error}")),
    }
}

/// `None` if there is more than `limit`.
fn read_bounded(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = fs::File::open(path)?;
    if file.metadata()?.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= limit);
    Ok(fits.then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn an_empty_file_that_was_filled_and_truncated_again_is_not_at_rest() {
        let root = directory();
        let path = root.path().join("a.yaml");
        let looked = |content: &str, seconds: u64| {
            fs::write(&path, content).unwrap();
            let written = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().append(true).open(&path).unwrap().set_modified(written).unwrap();
            scan(&[Manifests::Path(root.path().to_owned())], 100).unwrap().fingerprint()
        };
        assert_eq!(looked("", 1), looked("", 1));
        assert_ne!(looked("", 1), looked("", 2));
        assert_eq!(looked("{}", 1), looked("{}", 2), "what it holds says enough");
    }

    #[test]
    fn manifests_are_found_in_any_layout() {
        let root = directory();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        for name in ["x.yaml", "a/y.yml", "a/b/z.json", "a/README.md", ".hidden.yaml"] {
            fs::write(root.path().join(name), "{}").unwrap();
        }
        fs::write(root.path().join("a/expectations.yaml"), "{}").unwrap();
        fs::write(root.path().join("a/more.expectations.yaml"), "{}").unwrap();
        let scan = scan(&[Manifests::Path(root.path().to_owned())], 100).unwrap();
        let names: Vec<_> =
            scan.files.keys().map(|p| p.strip_prefix(root.path()).unwrap().to_owned()).collect();
        assert_eq!(names, ["a/b/z.json", "a/y.yml", "x.yaml"].map(PathBuf::from));
        assert!(scan.diagnostics.is_empty());
    }

    #[test]
    fn a_loop_of_symbolic_links_is_named_and_left() {
        let root = directory();
        fs::create_dir(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/x.yaml"), "{}").unwrap();
        symlink(root.path(), root.path().join("a/up")).unwrap();
        symlink(root.path().join("self"), root.path().join("self")).unwrap();
        let scan = scan(&[Manifests::Path(root.path().to_owned())], 100).unwrap();
        assert_eq!(scan.files.len(), 1);
        assert_eq!(scan.diagnostics.len(), 2, "{:?}", scan.diagnostics);
    }

    #[test]
    fn a_file_by_two_names_is_read_once() {
        let root = directory();
        fs::write(root.path().join("x.yaml"), "{}").unwrap();
        symlink(root.path().join("x.yaml"), root.path().join("y.yaml")).unwrap();
        let scan = scan(&[Manifests::Path(root.path().to_owned())], 100).unwrap();
        assert_eq!(scan.files.keys().collect::<Vec<_>>(), [&root.path().join("x.yaml")]);
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_by_size() {
        let root = directory();
        fs::write(root.path().join("x.yaml"), "0123456789a").unwrap();
        fs::write(root.path().join("y.yaml"), "0123456789").unwrap();
        let scan = scan(&[Manifests::Path(root.path().to_owned())], 10).unwrap();
        assert!(matches!(&scan.files[&root.path().join("x.yaml")], FileContent::Unusable(reason)
            if reason.contains("10 bytes")));
        assert!(matches!(&scan.files[&root.path().join("y.yaml")], FileContent::Bytes(_)));
    }

    #[test]
    fn a_single_file_is_a_source_too_and_a_missing_one_is_an_error() {
        let root = directory();
        let path = root.path().join("any-name");
        fs::write(&path, "{}").unwrap();
        assert_eq!(scan(&[Manifests::Path(path)], 10).unwrap().files.len(), 1);
        assert!(scan(&[Manifests::Path(root.path().join("missing"))], 10).is_err());
    }
}
