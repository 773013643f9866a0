//! Conditions on requests: what they match, and which of two contains the other.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A condition on paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathCondition {
    /// Every path.
    Any,
    /// This path.
    Exact(String),
    /// Paths whose text begins so, within a segment too.
    Begins(String),
    /// Paths whose text ends so.
    Ends(String),
    /// Paths that a regular expression matches as a whole.
    Expression(String),
}

/// A condition on requests, all of whose parts must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestCondition {
    /// The path.
    pub(crate) path: PathCondition,
    /// The method; absent: any.
    pub(crate) method: Option<String>,
    /// Regular expressions of whole values of headers, by the names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The host, one of these; absent: any.
    pub(crate) hosts: Option<BTreeSet<String>>,
}

impl PathCondition {
    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Begins(own), Self::Exact(other) | Self::Begins(other)) => other.starts_with(own),
            (Self::Ends(own), Self::Exact(other) | Self::Ends(other)) => other.ends_with(own),
            (Self::Exact(_) | Self::Expression(_) | Self::Begins(_) | Self::Ends(_), _) => {
                self == other
            }
        }
    }

    fn is_apart_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(other)) => one != other,
            (Self::Exact(path), Self::Begins(prefix))
            | (Self::Begins(prefix), Self::Exact(path)) => !path.starts_with(prefix),
            (Self::Begins(one), Self::Begins(other)) => {
                !one.starts_with(other) && !other.starts_with(one)
            }
            (Self::Exact(path), Self::Ends(suffix)) | (Self::Ends(suffix), Self::Exact(path)) => {
                !path.ends_with(suffix)
            }
            (Self::Ends(one), Self::Ends(other)) => !one.ends_with(other) && !other.ends_with(one),
            (Self::Any | Self::Expression(_), _)
            | (_, Self::Any | Self::Expression(_))
            | (Self::Begins(_), Self::Ends(_))
            | (Self::Ends(_), Self::Begins(_)) => false,
        }
    }

    /// Its precedence among routes: a text comes before an expression, and this before every path.
    fn rank(&self) -> u8 {
        match self {
            Self::Exact(_) => 2,
            Self::Begins(_) | Self::Ends(_) | Self::Expression(_) => 1,
            Self::Any => 0,
        }
    }

    fn manifest(&self) -> Value {
        let expression = |value: String| json!({"type": "RegularExpression", "value": value});
        match self {
            Self::Any => json!({"type": "PathPrefix", "value": "/"}),
            Self::Exact(path) => json!({"type": "Exact", "value": path}),
            Self::Begins(prefix) => expression(format!("{}.*", escaped(prefix))),
            Self::Ends(suffix) => expression(format!(".*{}", escaped(suffix))),
            Self::Expression(text) => expression(text.clone()),
        }
    }
}

/// A text as a regular expression that matches nothing else.
pub(crate) fn escaped(text: &str) -> String {
    let mut expression = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            expression.push('\\');
        }
        expression.push(c);
    }
    expression
}

impl RequestCondition {
    /// The condition that every request meets.
    pub(crate) fn any() -> Self {
        Self { path: PathCondition::Any, method: None, headers: BTreeMap::new(), hosts: None }
    }

    /// True if every request that meets the other meets this one.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.path.contains(&other.path)
            && self.method.as_ref().is_none_or(|own| other.method.as_ref() == Some(own))
            && self.headers.iter().all(|(name, value)| other.headers.get(name) == Some(value))
            && match (&self.hosts, &other.hosts) {
                (None, _) => true,
                (Some(own), Some(other)) => other.is_subset(own),
                (Some(_), None) => false,
            }
    }

    /// True if certainly no request meets both.
    pub(crate) fn is_apart_from(&self, other: &Self) -> bool {
        let methods = match (&self.method, &other.method) {
            (Some(one), Some(other)) => one != other,
            (None, _) | (_, None) => false,
        };
        let hosts = match (&self.hosts, &other.hosts) {
            // A host with a wildcard may meet another.
            (Some(one), Some(other)) => {
                let plain = one.iter().chain(other).all(|host| !host.contains('*'));
                plain && one.is_disjoint(other)
            }
            (None, _) | (_, None) => false,
        };
        methods || hosts || self.path.is_apart_from(&other.path)
    }

    /// True if its route is certainly taken before that of the other, by every request that meets both.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        let hosts = self.hosts.is_none() && other.hosts.is_none();
        let ranks = (self.path.rank(), other.path.rank());
        let more = ranks.0 > ranks.1
            || (self.path == other.path && self.method.is_some() && other.method.is_none());
        hosts && more
    }

    /// The match of a route, without its hosts.
    pub(crate) fn manifest(&self) -> Value {
        let mut found = json!({"path": self.path.manifest()});
        let Value::Object(fields) = &mut found else { return found };
        if let Some(method) = &self.method {
            fields.insert("method".to_owned(), json!(method));
        }
        if !self.headers.is_empty() {
            let header = |(name, value): (&String, &String)| json!({"name": name, "type": "RegularExpression", "value": value});
            let headers: Vec<Value> = self.headers.iter().map(header).collect();
            fields.insert("headers".to_owned(), json!(headers));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: PathCondition, method: Option<&str>) -> RequestCondition {
        RequestCondition { path, method: method.map(str::to_owned), ..RequestCondition::any() }
    }

    fn exact(path: &str) -> PathCondition {
        PathCondition::Exact(path.to_owned())
    }

    fn begins(path: &str) -> PathCondition {
        PathCondition::Begins(path.to_owned())
    }

    #[test]
    fn a_condition_contains_what_meets_it_and_nothing_else() {
        let any = RequestCondition::any();
        let admin = of(begins("/admin"), None);
        let users = of(exact("/admin/users"), Some("GET"));
        assert!(any.contains(&admin) && admin.contains(&users) && any.contains(&users));
        assert!(!users.contains(&admin) && !admin.contains(&any));
        assert!(!of(begins("/admin/"), None).contains(&of(exact("/admin"), None)));
        let posts = of(exact("/admin/users"), Some("POST"));
        assert!(users.is_apart_from(&posts) && !users.is_apart_from(&admin));
        assert!(of(begins("/a"), None).is_apart_from(&of(begins("/b"), None)));
        assert!(!of(begins("/a"), None).is_apart_from(&of(PathCondition::Ends("/b".into()), None)));
        let expression = of(PathCondition::Expression("/x.*".into()), None);
        assert!(expression.contains(&expression.clone()) && !expression.is_apart_from(&admin));
    }

    #[test]
    fn only_what_is_certain_precedes() {
        let any = RequestCondition::any();
        let (admin, users) = (of(begins("/admin"), None), of(exact("/admin/users"), None));
        assert!(users.precedes(&admin) && admin.precedes(&any) && !any.precedes(&admin));
        assert!(!admin.precedes(&of(begins("/a"), None)));
        assert!(of(exact("/a"), Some("GET")).precedes(&of(exact("/a"), None)));
        let hosts = Some(BTreeSet::from(["a.example".to_owned()]));
        assert!(!users.precedes(&RequestCondition { hosts, ..admin }));
    }
}
