//! The names of the types that a file declares.

use super::attributes::{of_item, only_in_tests};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};
use syn::{Ident, Item, ItemEnum, ItemStruct, ItemTrait, ItemType};

/// The names of the types that a file declares outside of tests.
pub(crate) fn types(text: &str) -> syn::Result<BTreeSet<String>> {
    let mut types = Types::default();
    types.visit_file(&syn::parse_file(text)?);
    Ok(types.0)
}

#[derive(Default)]
struct Types(BTreeSet<String>);

impl Types {
    fn add(&mut self, name: &Ident) {
        self.0.insert(name.to_string());
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast Item) {
        if !only_in_tests(of_item(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add(&item.ident);
    }
}
