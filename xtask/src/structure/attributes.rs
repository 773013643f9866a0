//! Attributes that decide whether and from where code is compiled.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, ImplItem, Item, Lit, Meta, Token, TraitItem};

/// True if code with these attributes is compiled for tests alone.
pub(crate) fn only_in_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| implies_test(&condition))
        }
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(_) | Meta::NameValue(_) => false,
    })
}

/// True if a condition of `cfg` cannot hold outside of tests.
fn implies_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
            let Ok(parts) = list.parse_args_with(parse) else { return false };
            if list.path.is_ident("all") {
                parts.iter().any(implies_test)
            } else {
                list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(implies_test)
            }
        }
        Meta::NameValue(_) => false,
    }
}

/// The file that `#[path = "…"]` names.
pub(crate) fn path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
        pair.path.is_ident("path").then(|| text.value())
    })
}

/// The attributes of an item.
pub(crate) fn of_item(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Verbatim(_) | _ => &[],
    }
}

/// The attributes of an item in an `impl` block.
pub(crate) fn of_impl_item(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        ImplItem::Verbatim(_) | _ => &[],
    }
}

/// The attributes of an item in a trait.
pub(crate) fn of_trait_item(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        TraitItem::Macro(item) => &item.attrs,
        TraitItem::Verbatim(_) | _ => &[],
    }
}
