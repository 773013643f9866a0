//! A directory of manifests, read as it is at one moment: any layout, YAML of several documents and
//! JSON. A caller that follows a directory keeps a [`Store`] and applies one [`Scan`] after the
//! other.

mod distinct;
mod input;
mod kustomization;
mod load;
mod looker;
mod manifest;
mod manifest_file;
mod passed_over;
mod scan;
mod store;
#[cfg(test)]
mod tests;
mod tombstone;

pub use input::{Manifests, names};
pub use load::{DirectoryContents, apply_scan, load, load_linting};
pub use looker::{Look, Looker};
pub use manifest::{Lint, Remark};
pub use manifest_file::ManifestFile;
pub use scan::{Scan, scan};
pub use store::{DeclaredAt, Store};
