//! Nothing permits by default (bypass rule 37): permits are made in a few places, each of which has a grant
//! that holds, and every other way out of a decision is a denial.

use policy_core::{Decision, Denial, Permit};
use policy_enforce::middleware::authorizer::{AuthorizeOutcome, Forward};
use policy_enforce::middleware::pipeline::Admission;
use policy_tests::sources::{SourceFile, rust_files};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, Expr, Item, Pat, Path};

/// Does not compile if one of the types has a default: both implementations would be meant.
macro_rules! have_no_default {
    ($($type:ty),+) => {$(
        const _: fn() = || {
            trait Meant<T> { fn it() {} }
            struct Any;
            struct WithDefault;
            impl<T> Meant<Any> for T {}
            impl<T: Default> Meant<WithDefault> for T {}
            _ = <$type as Meant<_>>::it;
        };
    )+};
}

have_no_default!(Decision, Permit, Denial, AuthorizeOutcome, Forward, Admission<()>);

/// Functions that make a permit, or make a request go on by one, with the number of expressions that do.
const MAKERS: [(&str, &str, usize); 7] = [
    // The constructor of both, which is private to the crate.
    ("policy-core/src/decision.rs", "permit", 2),
    // An exemption whose grant holds, and a grant that was found.
    ("policy-core/src/evaluator.rs", "exempted_connection", 1),
    ("policy-core/src/evaluator.rs", "decide_request", 1),
    ("policy-core/src/evaluator.rs", "granted", 1),
    ("policy-core/src/naive.rs", "permit", 1),
    // Each takes a permit.
    ("policy-proxy/enforce/src/middleware/authorizer.rs", "authorize", 2),
    ("policy-proxy/enforce/src/middleware/pipeline.rs", "admit", 1),
];

/// Methods whose arguments stand in for what is missing.
const FALLBACKS: [&str; 6] =
    ["or", "or_else", "unwrap_or", "unwrap_or_else", "map_or", "map_or_else"];

/// Expressions of one file that permit, and what is wrong with some of them.
#[derive(Default)]
struct Found {
    /// By function.
    makers: BTreeMap<String, usize>,
    /// Matches on a decision.
    matches: usize,
    faults: Vec<String>,
    within: Vec<String>,
    /// Depth of arguments that stand in for what is missing, and of arms that match everything.
    standing_in: usize,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut test = attribute.path().is_ident("test");
        if attribute.path().is_ident("cfg") {
            // `Err`: a condition of several parts, which is none of ours.
            _ = attribute.parse_nested_meta(|meta| {
                test |= meta.path.is_ident("test");
                Ok(())
            });
        }
        test
    })
}

fn ends_with(path: &Path, names: &[&str]) -> bool {
    let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    segments.ends_with(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
}

impl Found {
    fn function(&self) -> String {
        self.within.last().cloned().unwrap_or_default()
    }

    fn made(&mut self) {
        *self.makers.entry(self.function()).or_default() += 1;
        if self.standing_in > 0 {
            self.faults.push(format!("`{}` permits where something is missing", self.function()));
        }
    }

    fn in_function(&mut self, name: &syn::Ident, inside: impl FnOnce(&mut Self)) {
        self.within.push(name.to_string());
        inside(self);
        self.within.pop();
    }
}

/// True if a pattern matches whatever is left.
fn is_catch_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => name.subpat.is_none(),
        _ => false,
    }
}

/// True if a pattern names a variant of a decision.
fn is_of_a_decision(pattern: &Pat) -> bool {
    struct Names(bool);
    impl<'a> Visit<'a> for Names {
        fn visit_path(&mut self, path: &'a Path) {
            self.0 |=
                ends_with(path, &["Decision", "Permit"]) || ends_with(path, &["Decision", "Deny"]);
        }
    }
    let mut names = Names(false);
    names.visit_pat(pattern);
    names.0
}

impl<'a> Visit<'a> for Found {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.in_function(&item.sig.ident, |found| visit::visit_item_fn(found, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.in_function(&item.sig.ident, |found| visit::visit_impl_item_fn(found, item));
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => {
                if let Expr::Path(path) = &*call.func
                    && [
                        &["Decision", "permit"],
                        &["Decision", "Permit"],
                        &["Self", "Permit"],
                        &["AuthorizeOutcome", "Forward"],
                        &["Admission", "Admitted"],
                    ]
                    .iter()
                    .any(|names| ends_with(&path.path, *names))
                {
                    self.made();
                }
            }
            Expr::Struct(made)
                if ends_with(&made.path, &["Permit"]) || ends_with(&made.path, &["Forward"]) =>
            {
                self.made();
            }
            Expr::MethodCall(call) if FALLBACKS.contains(&&*call.method.to_string()) => {
                self.visit_expr(&call.receiver);
                self.standing_in += 1;
                call.args.iter().for_each(|argument| self.visit_expr(argument));
                self.standing_in -= 1;
                return;
            }
            Expr::Match(matched) => {
                let of_a_decision = matched.arms.iter().any(|arm| is_of_a_decision(&arm.pat));
                self.matches += usize::from(of_a_decision);
                if of_a_decision && matched.arms.iter().any(|arm| is_catch_all(&arm.pat)) {
                    let fault =
                        format!("`{}` matches a decision without naming it", self.function());
                    self.faults.push(fault);
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_arm(&mut self, arm: &'a Arm) {
        let catch_all = usize::from(is_catch_all(&arm.pat));
        self.standing_in += catch_all;
        visit::visit_arm(self, arm);
        self.standing_in -= catch_all;
    }
}

fn found(file: &SourceFile) -> Found {
    let mut found = Found::default();
    let parsed =
        syn::parse_file(&file.text).unwrap_or_else(|error| panic!("{}: {error}", file.path));
    found.visit_file(&parsed);
    found
}

/// Sources that ship, and decide or act on a decision.
fn shipped() -> Vec<SourceFile> {
    let ships = |path: &str| {
        ["policy-core/", "policy-proxy/", "policy-controller/", "policy-cli/", "proto/", "crds/"]
            .iter()
            .any(|folder| path.starts_with(folder))
            && path.contains("/src/")
            && !["/tests/", "/tests.rs", "/testing/", "/testing.rs"]
                .iter()
                .any(|part| path.contains(part))
    };
    rust_files().into_iter().filter(|file| ships(&file.path)).collect()
}

#[test]
fn permits_are_made_where_a_grant_holds_and_never_in_place_of_something_missing() {
    let mut makers = BTreeMap::new();
    let (mut faults, mut matches) = (Vec::new(), 0);
    for file in shipped() {
        let found = found(&file);
        matches += found.matches;
        faults.extend(found.faults.into_iter().map(|fault| format!("{}: {fault}", file.path)));
        makers.extend(found.makers.into_iter().map(|(name, n)| ((file.path.clone(), name), n)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let expected = MAKERS.map(|(file, name, count)| ((file.to_owned(), name.to_owned()), count));
    assert_eq!(makers, BTreeMap::from(expected), "a function that permits belongs into `MAKERS`");
    assert!(matches >= 8, "only {matches} matches on a decision were found");
}

#[test]
fn a_permit_in_place_of_something_missing_is_found() {
    let file =
        |body: &str| SourceFile { path: String::new(), text: format!("fn f() {{ {body} }}") };
    for wrong in [
        "find().unwrap_or(Decision::permit(a, b, c))",
        "find().map_or_else(|| Admission::Admitted(x), deny)",
        "match find() { Some(denial) => deny(denial), _ => Decision::permit(a, b, c) }",
        "match decision { Decision::Deny(denial) => Err(denial), other => Ok(other) }",
    ] {
        assert_eq!(found(&file(wrong)).faults.len(), 1, "{wrong}");
    }
    let right = "match grant { Some(grant) => Decision::permit(a, b, grant), None => deny() }";
    assert!(found(&file(right)).faults.is_empty());
    let test = "#[cfg(test)] mod tests { fn f() -> Permit { Permit { a, b } } }";
    assert!(found(&SourceFile { path: String::new(), text: test.to_owned() }).makers.is_empty());
}
