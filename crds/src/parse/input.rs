//! What the reader of a kind takes and gives.

use crate::object::{Claims, ObjectMeta};
use crate::reader::{AllowedFields, Fields};
use crate::resource::Resource;

/// What a kind's reader is given.
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

/// What a kind's reader gives: the resource if all of it could be read, and what it claims if not.
pub(crate) type Draft = (Option<Resource>, Claims);
