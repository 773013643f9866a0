//! A directory of manifests, read as it is at one moment: any layout, YAML of several documents and
//! JSON. Whoever follows a directory keeps a [`Store`] and gives it one [`Scan`] after the other.

mod kept;
mod load;
mod manifest;
mod scan;
mod store;
#[cfg(test)]
mod tests;

pub use load::{Loaded, load, look};
pub use scan::{Scan, scan};
pub use store::{Place, Store};
