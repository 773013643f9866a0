//! The input and the output of the readers of kinds.

use crate::object::{Claims, ObjectMeta};
use crate::reader::{AllowedFields, Fields};
use crate::resource::Resource;

/// The fields of an object.
pub(crate) const TOP_LEVEL: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];

/// The form in which an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As an API server has stored it.
    Stored,
    /// As its author wrote it, with fields that an API server drops.
    Written,
}

/// The input of a kind's reader.
pub(crate) struct Input<'a> {
    /// The object itself.
    pub(crate) root: Fields<'a>,
    /// Its metadata.
    pub(crate) meta: &'a ObjectMeta,
    /// Its version, without the group.
    pub(crate) version: &'a str,
    /// The form in which it is read.
    pub(crate) form: Form,
}

impl<'a> Input<'a> {
    /// `spec`, whose absence is an error. A field that is nearly its name is read in its place, so that
    /// the object keeps what it claims; it is an error, too.
    pub(crate) fn spec(&self, known: AllowedFields) -> Option<Fields<'a>> {
        let Some((node, error)) = self.root.meant("spec", TOP_LEVEL) else {
            return self.root.require("spec")?.fields(known);
        };
        if let Some(error) = error.filter(|_| !self.meta.key.kind.spec().is_defined_here()) {
            node.error(error.message);
        }
        node.fields(known)
    }
}

/// The output of a kind's reader: the resource if all of it could be read, and its claims if not.
pub(crate) type Draft = (Option<Resource>, Claims);
