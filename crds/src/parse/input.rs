//! The input and the output of the readers of kinds.

use crate::object::{Claims, ObjectMeta};
use crate::reader::{AllowedFields, Fields};
use crate::resource::Resource;

/// The input of a kind's reader.
pub(crate) struct Input<'a> {
    /// The object itself.
    pub(crate) root: Fields<'a>,
    /// Its metadata.
    pub(crate) meta: &'a ObjectMeta,
    /// Its version, without the group.
    pub(crate) version: &'a str,
}

impl<'a> Input<'a> {
    /// `spec`, whose absence is an error.
    pub(crate) fn spec(&self, known: AllowedFields) -> Option<Fields<'a>> {
        self.root.require("spec")?.fields(known)
    }
}

/// The output of a kind's reader: the resource if all of it could be read, and its claims if not.
pub(crate) type Draft = (Option<Resource>, Claims);
