//! The files of seeds, and how a failure is repeated.

use proptest::test_runner::{Config, FailurePersistence, FileFailurePersistence, PersistedSeed};
use std::any::Any;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// The folder of a package that holds its files of seeds.
const FOLDER: &str = "proptest-regressions";

/// Returns `config` with seeds kept by [`Regressions`], unless proptest's own variable
/// `PROPTEST_DISABLE_FAILURE_PERSISTENCE` is set.
pub fn kept(config: Config) -> Config {
    let is_off = std::env::var_os("PROPTEST_DISABLE_FAILURE_PERSISTENCE").is_some();
    let keeper: Option<Box<dyn FailurePersistence>> =
        if is_off { None } else { Some(Box::new(Regressions)) };
    Config { failure_persistence: keeper, ..config }
}

/// Keeps the seeds of the properties of one source in one file of their package: those of
/// `PACKAGE/tests/a/b.rs` in `PACKAGE/proptest-regressions/tests/a/b.txt`. Each run of a property of that
/// source begins with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regressions;

impl FailurePersistence for Regressions {
    fn load_persisted_failures2(&self, source: Option<&'static str>) -> Vec<PersistedSeed> {
        match source.and_then(Source::find) {
            Some(source) => source.file().load_persisted_failures2(None),
            None => Vec::new(),
        }
    }

    fn save_persisted_failure2(
        &mut self,
        source: Option<&'static str>,
        seed: PersistedSeed,
        shrunken: &dyn Debug,
    ) {
        let Some(found) = source.and_then(Source::find) else {
            let source = source.unwrap_or("a source without a name");
            eprintln!(
                "proptest: {source} is in no package here, so that this seed is not kept: {seed}"
            );
            return;
        };
        let thread = std::thread::current();
        let how = found.how_to_repeat(thread.name());
        found.file().save_persisted_failure2(None, seed, shrunken);
        eprintln!("proptest: To repeat the failure, with this line in the file: {how}");
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(*self)
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A source with properties.
struct Source {
    /// The folder of its package.
    package: PathBuf,
    /// Its path from there.
    path: PathBuf,
}

impl Source {
    /// Finds a source that the compiler names, which it does from the root of the workspace. Tests run in
    /// the folder of their package.
    fn find(named: &str) -> Option<Self> {
        let here = std::env::current_dir().ok()?;
        let path = here.ancestors().map(|folder| folder.join(named)).find(|path| path.is_file())?;
        let is_package = |folder: &&Path| folder.join("Cargo.toml").is_file();
        let package = path.ancestors().skip(1).find(is_package)?.to_owned();
        let path = path.strip_prefix(&package).ok()?.to_owned();
        Some(Self { package, path })
    }

    /// Proptest's own reading and writing of its file. It takes the name for as long as the process runs,
    /// which is as long as its tests.
    fn file(&self) -> FileFailurePersistence {
        let file = self.package.join(FOLDER).join(&self.path).with_extension("txt");
        FileFailurePersistence::Direct(String::leak(file.display().to_string()))
    }

    /// The command that runs the test again. The runner of tests names each thread after its test, save
    /// where it has one thread alone.
    fn how_to_repeat(&self, thread: Option<&str>) -> String {
        let mut command = "cargo test".to_owned();
        if let Some(package) = self.package_name() {
            command.push_str(&format!(" -p {package}"));
        }
        if let Some(program) = self.program() {
            command.push_str(&format!(" --test {program}"));
        }
        match thread {
            Some(test) if test != "main" => command.push_str(&format!(" {test} -- --exact")),
            Some(_) | None => {}
        }
        command
    }

    fn package_name(&self) -> Option<String> {
        let manifest = std::fs::read_to_string(self.package.join("Cargo.toml")).ok()?;
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name")?.trim().strip_prefix('='))?;
        Some(name.trim().trim_matches('"').to_owned())
    }

    /// The program of tests that the source belongs to: a file of the folder `tests`, or a folder of it.
    fn program(&self) -> Option<String> {
        let inner = self.path.strip_prefix("tests").ok()?;
        let first = Path::new(inner.iter().next()?);
        Some(first.file_stem()?.to_str()?.to_owned())
    }
}

#[cfg(test)]
mod tests;
