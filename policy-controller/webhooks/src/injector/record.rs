//! Changes of a record, with elements of lists by their names. A list may have been edited between
//! injection and its reverse, so that a number would name another element.

use super::element::text;
use super::patch::apply;
use serde_json::{Value, json};

/// The beginning of a step that names an element of a list by its field `name`.
const NAME: &str = "name=";

/// Returns the changes from `from` to `to` with elements of lists by their names. A list whose elements
/// have none is replaced as a whole, if it is as it was.
pub(super) fn named(from: &Value, to: &Value, operations: Vec<Value>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for operation in operations {
        let Some(operation) = one(from, to, &operation) else { continue };
        // Several changes of one list are one.
        if !all.contains(&operation) {
            all.push(operation);
        }
    }
    all
}

fn one(from: &Value, to: &Value, operation: &Value) -> Option<Value> {
    let path = text(operation, "path")?;
    let (mut value, mut written, mut passed) = (Some(from), String::new(), String::new());
    for step in path.split('/').skip(1) {
        match value {
            Some(list @ Value::Array(elements)) => {
                let element = step.parse::<usize>().ok().and_then(|at| elements.get(at));
                let name = element.and_then(|element| text(element, "name"));
                // The element itself is added, taken away or replaced.
                let is_last =
                    passed.len().saturating_add(step.len()).saturating_add(1) == path.len();
                let Some(name) = name.filter(|name| !is_last && position(elements, name).is_some())
                else {
                    let whole = to.pointer(&passed)?;
                    return Some(
                        json!({"op": "replace", "path": written, "value": whole, "was": list}),
                    );
                };
                written.push_str(&format!("/{NAME}{}", escaped(name)));
                value = element;
            }
            other => {
                written.push_str(&format!("/{step}"));
                value = other.and_then(|map| map.get(step.replace("~1", "/").replace("~0", "~")));
            }
        }
        passed.push_str(&format!("/{step}"));
    }
    let mut named = operation.clone();
    named.as_object_mut()?.insert("path".to_owned(), written.into());
    Some(named)
}

/// Makes one change; `None` if what it is about is no longer there, or is not as it was.
pub(super) fn restore(value: &mut Value, operation: &Value) -> Option<()> {
    let path = numbered(value, text(operation, "path")?)?;
    if let Some(was) = operation.get("was")
        && value.pointer(&path) != Some(was)
    {
        return None;
    }
    let mut operation = operation.clone();
    operation.as_object_mut()?.insert("path".to_owned(), path.into());
    apply(value, &operation)
}

/// Returns a path with the numbers that elements have now.
fn numbered(value: &Value, path: &str) -> Option<String> {
    let (mut value, mut numbered) = (Some(value), String::new());
    for step in path.split('/').skip(1) {
        let plain = step.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Array(elements)) = value {
            let at = position(elements, plain.strip_prefix(NAME)?)?;
            numbered.push_str(&format!("/{at}"));
            value = elements.get(at);
        } else {
            numbered.push_str(&format!("/{step}"));
            value = value.and_then(|map| map.get(&plain));
        }
    }
    Some(numbered)
}

/// The place of the one element with a name.
fn position(elements: &[Value], name: &str) -> Option<usize> {
    let mut named =
        elements.iter().enumerate().filter(|(_, element)| text(element, "name") == Some(name));
    let (at, _) = named.next()?;
    named.next().is_none().then_some(at)
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::super::diff::diff;
    use super::*;

    fn pod(ports: [(&str, &str); 2]) -> Value {
        let [a, b] = ports.map(|(name, port)| json!({"name": name, "port": port}));
        json!({"spec": {"containers": [a, b]}})
    }

    #[test]
    fn a_change_is_of_the_element_with_the_name_wherever_it_stands_now() {
        let (from, to) =
            (pod([("a", "80"), ("b/c", "81")]), pod([("a", "http"), ("b/c", "admin")]));
        let changes = named(&from, &to, diff(&from, &to));
        let paths: Vec<_> = changes.iter().map(|change| text(change, "path").unwrap()).collect();
        assert_eq!(paths, ["/spec/containers/name=a/port", "/spec/containers/name=b~1c/port"]);
        let mut edited = pod([("b/c", "81"), ("new", "99")]);
        let made: Vec<bool> =
            changes.iter().map(|change| restore(&mut edited, change).is_some()).collect();
        assert_eq!(made, [false, true]);
        assert_eq!(edited, pod([("b/c", "admin"), ("new", "99")]));
    }

    #[test]
    fn a_list_without_names_is_restored_only_if_it_is_as_it_was() {
        let args = |args: &[&str]| json!({"spec": {"args": args}});
        let (from, to) = (args(&["-a", "-b"]), args(&["-a", "-c"]));
        let changes = named(&from, &to, diff(&from, &to));
        let whole = json!({"op": "replace", "path": "/spec/args", "value": ["-a", "-c"],
            "was": ["-a", "-b"]});
        assert_eq!(changes, [whole]);
        let (mut same, mut edited) = (from, args(&["-x", "-a"]));
        assert_eq!(restore(&mut same, &changes[0]), Some(()));
        assert_eq!(same, to);
        assert_eq!(restore(&mut edited, &changes[0]), None);
        assert_eq!(edited, args(&["-x", "-a"]), "nothing is written where it could be wrong");
        let old = json!({"op": "replace", "path": "/spec/args/0", "value": "-z"});
        assert_eq!(restore(&mut edited, &old), None, "a number names nothing for sure");
    }
}
