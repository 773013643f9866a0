//! Declarations and paths of one file, outside of code for tests.

use super::attributes::{of_impl_item, of_item, of_trait_item, only_in_tests, path};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, Field, File, ImplItem, Item, ItemMod, ItemUse, Lit, LitStr, Local, Macro, Meta,
    Path, TraitItem, UseTree, Variant, VisRestricted,
};

/// A module that a file declares.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// The modules in the file that hold the declaration, the outermost first.
    pub(crate) scope: Vec<String>,
    pub(crate) name: String,
    /// The file that an attribute names.
    pub(crate) path: Option<String>,
    /// True if the module's code is in this file.
    pub(crate) inline: bool,
}

/// Names that a `use` brings into the scope.
#[derive(Debug, PartialEq)]
pub(crate) enum Import {
    /// One name, which may be another one than the path ends with.
    Name(String),
    /// Every name of a module.
    Glob,
}

/// A path that a file names.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The modules in the file that hold the path, the outermost first.
    pub(crate) scope: Vec<String>,
    pub(crate) segments: Vec<String>,
    /// Set for a path of a `use`.
    pub(crate) import: Option<Import>,
}

/// The declarations and references of one file.
#[derive(Debug, Default)]
pub(crate) struct Syntax {
    pub(crate) declarations: Vec<Declaration>,
    pub(crate) references: Vec<Reference>,
    /// Texts in quotes, without documentation.
    pub(crate) texts: Vec<String>,
    /// The file is for tests alone.
    pub(crate) only_in_tests: bool,
    scope: Vec<String>,
}

impl Syntax {
    /// Reads a file.
    pub(crate) fn read(text: &str) -> syn::Result<Self> {
        let file: File = syn::parse_file(text)?;
        let mut syntax = Syntax { only_in_tests: only_in_tests(&file.attrs), ..Self::default() };
        syntax.visit_file(&file);
        Ok(syntax)
    }

    fn refer(&mut self, segments: Vec<String>, import: Option<Import>) {
        self.references.push(Reference { scope: self.scope.clone(), segments, import });
    }

    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[plain(name)]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            UseTree::Name(name) if name.ident == "self" => {
                let bound = before.last().cloned().unwrap_or_default();
                self.refer(before.to_vec(), Some(Import::Name(bound)));
            }
            UseTree::Name(name) => {
                self.refer(with(&name.ident), Some(Import::Name(plain(&name.ident))));
            }
            UseTree::Rename(rename) => {
                let path =
                    if rename.ident == "self" { before.to_vec() } else { with(&rename.ident) };
                self.refer(path, Some(Import::Name(plain(&rename.rename))));
            }
            UseTree::Glob(_) => self.refer(before.to_vec(), Some(Import::Glob)),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before));
            }
        }
    }

    /// The paths among tokens that are no syntax tree yet: arguments of macros and attributes.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        // How many colons came since the last segment, and whether a path may begin here.
        let (mut colons, mut may_begin) = (0_u8, true);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if path.is_empty() || colons != 2 {
                        self.end_of(&mut path);
                        if may_begin {
                            path.push(plain(&ident));
                        }
                    } else {
                        path.push(plain(&ident));
                    }
                    (colons, may_begin) = (0, true);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons = colons.saturating_add(1);
                    may_begin = colons < 2;
                }
                TokenTree::Punct(punct) => {
                    self.end_of(&mut path);
                    (colons, may_begin) = (0, punct.as_char() != '.');
                }
                TokenTree::Literal(literal) => {
                    self.end_of(&mut path);
                    if let Lit::Str(text) = Lit::new(literal) {
                        self.texts.push(text.value());
                    }
                    (colons, may_begin) = (0, true);
                }
                TokenTree::Group(group) => {
                    if colons == 2 && group.delimiter() == Delimiter::Brace {
                        // `use` of several names inside a macro.
                        let before = std::mem::take(&mut path);
                        self.refer(before.clone(), None);
                        self.group(group.stream(), &before);
                    } else {
                        self.end_of(&mut path);
                        self.tokens(group.stream());
                    }
                    (colons, may_begin) = (0, true);
                }
            }
        }
        self.end_of(&mut path);
    }

    fn group(&mut self, tokens: TokenStream, before: &[String]) {
        let mut inner = Syntax::default();
        inner.tokens(tokens);
        self.texts.append(&mut inner.texts);
        for reference in inner.references {
            self.refer([before, &reference.segments[..]].concat(), None);
        }
    }

    fn end_of(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.refer(std::mem::take(path), None);
        }
        path.clear();
    }
}

/// A name without the mark of a raw identifier.
fn plain(ident: &impl ToString) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

impl<'ast> Visit<'ast> for Syntax {
    fn visit_item(&mut self, item: &'ast Item) {
        if !only_in_tests(of_item(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let name = plain(&module.ident);
        self.declarations.push(Declaration {
            scope: self.scope.clone(),
            name: name.clone(),
            path: path(&module.attrs),
            inline: module.content.is_some(),
        });
        if let Some((_, items)) = &module.content {
            self.scope.push(name);
            items.iter().for_each(|item| self.visit_item(item));
            self.scope.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        // A leading `::` leads out of the crate.
        if item.leading_colon.is_none() {
            self.import(&item.tree, &[]);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !only_in_tests(of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if !only_in_tests(of_trait_item(item)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !only_in_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !only_in_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !only_in_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !only_in_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let segments = path.segments.iter().map(|segment| plain(&segment.ident)).collect();
            self.refer(segments, None);
        }
        visit::visit_path(self, path);
    }

    fn visit_lit_str(&mut self, text: &'ast LitStr) {
        self.texts.push(text.value());
    }

    // `pub(super)` and `pub(in …)` say who may look, they import nothing.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.visit_path(attribute.path());
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let syntax = Syntax::read(text).unwrap();
        syntax.references.iter().map(|reference| reference.segments.join("::")).collect()
    }

    #[test]
    fn a_tree_of_imports_is_every_path_in_it() {
        let syntax = Syntax::read("use super::a::{self, b::*, c as d, e::{f, g as _}};").unwrap();
        let found: Vec<_> = syntax
            .references
            .into_iter()
            .map(|reference| (reference.segments.join("::"), reference.import.unwrap()))
            .collect();
        let name = |name: &str| Import::Name(name.to_owned());
        assert_eq!(
            found,
            [
                ("super::a".to_owned(), name("a")),
                ("super::a::b".to_owned(), Import::Glob),
                ("super::a::c".to_owned(), name("d")),
                ("super::a::e::f".to_owned(), name("f")),
                ("super::a::e::g".to_owned(), name("_")),
            ]
        );
    }

    #[test]
    fn paths_in_code_types_macros_and_attributes_are_found() {
        let text = "#[derive(crate::derive::Trace)]\n\
                    struct S { #[serde(with = crate::with::hex)] a: super::a::A }\n\
                    fn f() -> r#gen::B { assert_eq!(x.y::<u8>(), child::f(1), \"{}\", self::z); }";
        let expected = [
            "crate::derive::Trace",
            "crate::with::hex",
            "super::a::A",
            "gen::B",
            "child::f",
            "self::z",
        ];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn texts_are_found_without_documentation() {
        let text = "/// Documented.\n#[error(\"broken: {0}\")] struct E;\n\
                    fn f() { warn!(%error, \"cannot \\\n    accept\"); g(\"plain\", r#\"raw\"#) }\n\
                    #[cfg(test)] fn g() { h(\"tested\") }";
        let texts = Syntax::read(text).unwrap().texts;
        assert_eq!(texts, ["broken: {0}", "cannot accept", "plain", "raw"]);
    }

    #[test]
    fn imports_inside_a_macro_are_found() {
        let text = "m! { use super::{a::b, c}; }";
        assert_eq!(paths(text), ["super", "super::a::b"]);
    }

    #[test]
    fn what_is_for_tests_alone_names_nothing() {
        let text = "#[cfg(test)] use super::a;\n\
                    #[cfg(all(test, unix))] mod tests { use super::*; }\n\
                    #[cfg(any(test, feature = \"x\"))] use super::kept;\n\
                    #[cfg(not(test))] use super::other;\n\
                    impl S { #[cfg(test)] fn f() { super::b::c() } }\n\
                    #[test] fn t() { super::d::e() }\n\
                    pub(in crate::a) fn g() {}";
        assert_eq!(paths(text), ["super::kept", "super::other"]);
    }
}
