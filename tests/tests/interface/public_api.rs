//! The public interface of policy-embed, as rustdoc reads it.

use super::compare;
use policy_tests::sources::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates whose types are nobody's but ours: a new version of one must not break those who embed.
const INSIDE: [&str; 5] =
    ["tokio_util::", "tonic::", "rustls::", "tokio_rustls::", "prometheus_client::"];

#[test]
fn the_public_interface_of_the_embedded_check_changes_on_purpose_alone() {
    let document = document();
    let lines = Interface(&document).lines();
    let leaks: Vec<_> =
        lines.iter().filter(|line| INSIDE.iter().any(|inside| line.contains(inside))).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    compare("public-api.txt", &text);
}

/// Runs rustdoc on the crate and reads its output. Its JSON is unstable, so that it has to be let; the compiler is not,
/// because build scripts would see it and build everything anew.
fn document() -> Value {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let rustdoc = folder.join("rustdoc");
    std::fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    std::fs::set_permissions(&rustdoc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let target: PathBuf = folder.parent().unwrap().to_owned();
    let json = ["-Z", "unstable-options", "--output-format", "json"];
    let ran = Command::new(env!("CARGO"))
        .args(["rustdoc", "--offline", "--lib", "-p", "policy-embed", "--all-features"])
        .arg("--target-dir")
        .arg(&target)
        .arg("--")
        .args(json)
        .env("RUSTDOC", &rustdoc)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(target.join("doc/policy_embed.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The items of a crate, a line each, sorted.
struct Interface<'a>(&'a Value);

impl<'a> Interface<'a> {
    fn lines(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        self.module(self.item(&self.0["root"]).unwrap(), "policy_embed", &mut lines);
        lines
    }

    /// An item of this crate; ids of others have a path alone.
    fn item(&self, id: &Value) -> Option<&'a Value> {
        self.0["index"].get(id.to_string().trim_matches('"'))
    }

    fn path(&self, id: &Value) -> Option<String> {
        let path = self.0["paths"].get(id.to_string().trim_matches('"'))?;
        let parts = path["path"].as_array()?.iter().filter_map(Value::as_str);
        Some(parts.collect::<Vec<_>>().join("::"))
    }

    fn module(&self, module: &'a Value, path: &str, lines: &mut BTreeSet<String>) {
        for id in list(&module["inner"]["module"]["items"]) {
            let Some(item) = self.item(id) else { continue };
            let used = &item["inner"]["use"];
            if used.is_null() {
                let name = item["name"].as_str().unwrap_or_default();
                self.add(item, &format!("{path}::{name}"), lines);
                continue;
            }
            let name = format!("{path}::{}", used["name"].as_str().unwrap_or_default());
            match self.item(&used["id"]) {
                Some(own) => self.add(own, &name, lines),
                None => {
                    let of = self.path(&used["id"]);
                    let of = of.unwrap_or_else(|| used["source"].as_str().unwrap().to_owned());
                    lines.insert(format!("use {of} as {name}"));
                }
            }
        }
    }

    fn add(&self, item: &'a Value, path: &str, lines: &mut BTreeSet<String>) {
        let inner = item["inner"].as_object().unwrap();
        let (kind, inner) = inner.iter().next().unwrap();
        match &**kind {
            "module" => self.module(item, path, lines),
            "function" => {
                lines.insert(self.function(path, inner));
            }
            "struct" => {
                lines.insert(format!("struct {path}"));
                self.members(&inner["kind"]["plain"]["fields"], path, lines);
                self.impls(&inner["impls"], path, lines);
            }
            "enum" => {
                lines.insert(format!("enum {path}"));
                self.members(&inner["variants"], path, lines);
                self.impls(&inner["impls"], path, lines);
            }
            "variant" => {
                lines.insert(format!("variant {path}"));
                self.members(&inner["kind"]["tuple"], path, lines);
                self.members(&inner["kind"]["struct"]["fields"], path, lines);
            }
            "struct_field" => {
                lines.insert(format!("field {path}: {}", self.kind(inner)));
            }
            "trait" => {
                lines.insert(format!("trait {path}: {}", self.bounds(&inner["bounds"])));
                self.members(&inner["items"], path, lines);
            }
            "assoc_type" => {
                lines.insert(format!("type {path}: {}", self.bounds(&inner["bounds"])));
            }
            "type_alias" => {
                lines.insert(format!("type {path} = {}", self.kind(&inner["type"])));
            }
            other => {
                lines.insert(format!("{other} {path}"));
            }
        }
    }

    fn members(&self, ids: &'a Value, path: &str, lines: &mut BTreeSet<String>) {
        for item in list(ids).filter_map(|id| self.item(id)) {
            let name = item["name"].as_str().unwrap_or_default();
            self.add(item, &format!("{path}::{name}"), lines);
        }
    }

    /// The methods, and the traits that are no compiler's or every type's.
    fn impls(&self, ids: &'a Value, path: &str, lines: &mut BTreeSet<String>) {
        for item in list(ids).filter_map(|id| self.item(id)) {
            let own = &item["inner"]["impl"];
            if own["trait"].is_null() {
                for method in list(&own["items"]).filter_map(|id| self.item(id)) {
                    if method["visibility"] == "public" {
                        let name = method["name"].as_str().unwrap();
                        self.add(method, &format!("{path}::{name}"), lines);
                    }
                }
            } else if own["is_synthetic"] == false && own["blanket_impl"].is_null() {
                lines.insert(format!("impl {} for {path}", self.named(&own["trait"])));
            }
        }
    }

    fn function(&self, path: &str, inner: &Value) -> String {
        let asynchronous = if inner["header"]["is_async"] == true { "async " } else { "" };
        let inputs = list(&inner["sig"]["inputs"]);
        let inputs = inputs.map(|input| {
            format!("{}: {}", input[0].as_str().unwrap_or_default(), self.kind(&input[1]))
        });
        let inputs = inputs.collect::<Vec<_>>().join(", ");
        let output = match &inner["sig"]["output"] {
            Value::Null => String::new(),
            output => format!(" -> {}", self.kind(output)),
        };
        let parameters = list(&inner["generics"]["params"]).filter_map(|parameter| {
            let bounds = self.bounds(&parameter["kind"]["type"]["bounds"]);
            let name = parameter["name"].as_str()?;
            let said = parameter["kind"]["type"]["is_synthetic"] == false && !bounds.is_empty();
            said.then(|| format!("{name}: {bounds}"))
        });
        let mut parameters: Vec<_> = parameters.collect();
        for bound in list(&inner["generics"]["where_predicates"]) {
            let bound = &bound["bound_predicate"];
            let bounds = self.bounds(&bound["bounds"]);
            parameters.push(format!("{}: {bounds}", self.kind(&bound["type"])));
        }
        let parameters = parameters.join(", ");
        let parameters = if parameters.is_empty() { parameters } else { format!("<{parameters}>") };
        format!("{asynchronous}fn {path}{parameters}({inputs}){output}")
    }

    fn bounds(&self, bounds: &Value) -> String {
        let bounds = list(bounds).map(|bound| match &bound["trait_bound"]["trait"] {
            Value::Null => bound["outlives"].as_str().unwrap_or("use<>").to_owned(),
            of => self.named(of),
        });
        bounds.collect::<Vec<_>>().join(" + ")
    }

    /// A path with its arguments.
    fn named(&self, of: &Value) -> String {
        let path = self.path(&of["id"]);
        let path = path.or_else(|| of["path"].as_str().map(str::to_owned)).unwrap_or_default();
        let arguments = &of["args"]["angle_bracketed"];
        let of = list(&arguments["args"]).map(|one| match &one["type"] {
            Value::Null => one["lifetime"].as_str().unwrap_or("_").to_owned(),
            kind => self.kind(kind),
        });
        let equal = list(&arguments["constraints"]).map(|one| {
            let name = one["name"].as_str().unwrap_or_default();
            match &one["binding"]["equality"]["type"] {
                Value::Null => format!("{name}: {}", self.bounds(&one["binding"]["constraint"])),
                kind => format!("{name} = {}", self.kind(kind)),
            }
        });
        let arguments: Vec<_> = of.chain(equal).collect();
        if arguments.is_empty() { path } else { format!("{path}<{}>", arguments.join(", ")) }
    }

    fn kind(&self, kind: &Value) -> String {
        let Some((name, inner)) = kind.as_object().and_then(|kind| kind.iter().next()) else {
            return "_".to_owned();
        };
        let text = || inner.as_str().unwrap_or_default().to_owned();
        let all = |list_of: &Value| {
            list(list_of).map(|one| self.kind(one)).collect::<Vec<_>>().join(", ")
        };
        match &**name {
            "resolved_path" => self.named(inner),
            "generic" | "primitive" => text(),
            "borrowed_ref" => {
                let mutable = if inner["is_mutable"] == true { "mut " } else { "" };
                format!("&{mutable}{}", self.kind(&inner["type"]))
            }
            "tuple" => format!("({})", all(inner)),
            "slice" => format!("[{}]", self.kind(inner)),
            "array" => format!("[{}; {}]", self.kind(&inner["type"]), inner["len"]),
            "impl_trait" => format!("impl {}", self.bounds(inner)),
            "dyn_trait" => {
                let traits = list(&inner["traits"]).map(|one| self.named(&one["trait"]));
                format!("dyn {}", traits.collect::<Vec<_>>().join(" + "))
            }
            "qualified_path" => {
                let name = inner["name"].as_str().unwrap_or_default();
                format!("{}::{name}", self.kind(&inner["self_type"]))
            }
            other => format!("{other} {inner}"),
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
