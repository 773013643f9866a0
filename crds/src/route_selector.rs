//! Labels of routes in groups, and the selectors over them.
//!
//! A route has the labels that its author wrote, and automatic ones. Values of automatic labels, such
//! as `HTTP/2` and `/books/:id`, are none that a label of Kubernetes could have, so that these selectors
//! are a type of their own.

use crate::group_path::{GroupPath, ParameterPlace};
use crate::selector::Operator;
use http::Method;
use policy_core::{SegmentCondition, SegmentOperator};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Labels of a route by name. Those that authors write have none of the automatic names.
pub type RouteLabels = BTreeMap<Arc<str>, Arc<str>>;

/// The label with the method of a request.
pub const METHOD: &str = "http.linkerd.io/method";
/// The label with the version of HTTP of a request.
pub const VERSION: &str = "http.linkerd.io/version";
/// The label with the path of the route.
pub const PATH: &str = "http.linkerd.io/path";
/// The label of routes whose requests may be repeated: authors write it.
pub const IDEMPOTENT: &str = "http.linkerd.io/idempotent";
/// The beginning of the labels with the text that a parameter of the path stands for in a request.
pub const PARAMETER: &str = "path.http.linkerd.io/";
/// The beginning of the names whose meaning is fixed.
pub const RESERVED: &str = "http.linkerd.io/";

/// The name of a label, by where its value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelKey {
    /// [`METHOD`].
    Method,
    /// [`VERSION`].
    Version,
    /// [`PATH`].
    Path,
    /// Behind [`PARAMETER`]: the name of the parameter.
    Parameter(Arc<str>),
    /// A label that authors write.
    Own(Arc<str>),
}

/// A conjunction over the labels of a route. Without conditions it selects every route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteSelector {
    /// Conditions that must hold: `matchLabels`, each as `In` with one value, then `matchExpressions`.
    pub expressions: Vec<SelectorExpression>,
}

/// One condition of a [`RouteSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectorExpression {
    /// The label.
    pub key: LabelKey,
    /// The condition on its value. Values of paths are as [`GroupPath`] prints them, those of
    /// parameters in match form. The version is compared with no value.
    pub operator: Operator,
}

/// A route, as far as selectors look at it.
#[derive(Clone, Copy, Debug)]
pub struct SelectableRoute<'a> {
    /// Its path.
    pub path: &'a GroupPath,
    /// Its method; absent: any. A route with several is one for each.
    pub method: Option<&'a Method>,
    /// The labels that authors wrote, those of includes among them.
    pub labels: &'a RouteLabels,
}

/// The requests of a route that a selector selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    Always,
    /// Those that meet all of these conditions; never empty.
    When(Vec<SegmentCondition>),
    /// None of them.
    Never,
    /// None of them, because a condition cannot be evaluated.
    Inexpressible(Inexpressible),
}

/// The reason why a condition on a route cannot be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inexpressible {
    /// The method is compared, and the route is for any.
    AnyMethod,
    /// The value of a `*rest` is compared, which is more than one segment.
    Rest,
}

impl Inexpressible {
    /// The reason, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnyMethod => "the route is for any method: list the `methods` of the route",
            Self::Rest => "`*rest` stands for several segments: only single ones can be compared",
        }
    }
}

impl LabelKey {
    /// The key of this name, whether or not an author may write such a label.
    pub fn of(name: &str) -> Self {
        match (name, name.strip_prefix(PARAMETER)) {
            (METHOD, _) => Self::Method,
            (VERSION, _) => Self::Version,
            (PATH, _) => Self::Path,
            (_, Some(parameter)) => Self::Parameter(parameter.into()),
            (_, None) => Self::Own(name.into()),
        }
    }
}

impl fmt::Display for LabelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str(METHOD),
            Self::Version => f.write_str(VERSION),
            Self::Path => f.write_str(PATH),
            Self::Parameter(name) => write!(f, "{PARAMETER}{name}"),
            Self::Own(name) => f.write_str(name),
        }
    }
}

impl SelectableRoute<'_> {
    /// All of its labels whose value is known before there is a request, automatic ones among them.
    pub fn known_labels(&self) -> RouteLabels {
        let mut labels = self.labels.clone();
        labels.insert(PATH.into(), self.path.as_str().into());
        labels.extend(self.method.map(|method| (METHOD.into(), method.as_str().into())));
        labels
    }
}

/// The labels of a route that is included with further ones. Those of the includer win.
pub fn included(own: &RouteLabels, includer: &RouteLabels) -> RouteLabels {
    let mut labels = own.clone();
    labels.extend(includer.iter().map(|(name, value)| (name.clone(), value.clone())));
    labels
}

impl RouteSelector {
    /// The requests of `route` that it selects.
    pub fn select(&self, route: &SelectableRoute<'_>) -> Selection {
        let mut conditions = Vec::new();
        let mut inexpressible = None;
        for expression in &self.expressions {
            match expression.on(route) {
                Outcome::Holds => {}
                Outcome::Fails => return Selection::Never,
                Outcome::When(condition) => conditions.push(condition),
                Outcome::Unknown(reason) => inexpressible = inexpressible.or(Some(reason)),
            }
        }
        match inexpressible {
            Some(reason) => Selection::Inexpressible(reason),
            None if conditions.is_empty() => Selection::Always,
            None => Selection::When(conditions),
        }
    }
}

/// The outcome of one condition on one route.
enum Outcome {
    Holds,
    Fails,
    When(SegmentCondition),
    Unknown(Inexpressible),
}

impl Outcome {
    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

impl SelectorExpression {
    fn on(&self, route: &SelectableRoute<'_>) -> Outcome {
        let operator = &self.operator;
        match &self.key {
            LabelKey::Own(name) => {
                Outcome::of(operator.holds(route.labels.get(name).map(|value| &**value)))
            }
            LabelKey::Path => Outcome::of(operator.holds(Some(route.path.as_str()))),
            LabelKey::Method => match (operator, route.method) {
                (_, Some(method)) => Outcome::of(operator.holds(Some(method.as_str()))),
                (Operator::Exists, None) => Outcome::Holds,
                (Operator::DoesNotExist, None) => Outcome::Fails,
                (Operator::In(_) | Operator::NotIn(_), None) => {
                    Outcome::Unknown(Inexpressible::AnyMethod)
                }
            },
            // Every request has one.
            LabelKey::Version => Outcome::of(*operator == Operator::Exists),
            LabelKey::Parameter(name) => parameter(operator, name, route.path),
        }
    }
}

/// The outcome of a condition on a parameter. A route without the parameter meets neither `In` nor
/// `NotIn`, as a request without the segment does: a misspelt name must not select every route.
fn parameter(operator: &Operator, name: &str, path: &GroupPath) -> Outcome {
    let Some(place) = path.place_of(name) else {
        return Outcome::of(*operator == Operator::DoesNotExist);
    };
    let (wanted, values) = match operator {
        Operator::Exists => return Outcome::Holds,
        Operator::DoesNotExist => return Outcome::Fails,
        Operator::In(values) => (SegmentOperator::In, values),
        Operator::NotIn(values) => (SegmentOperator::NotIn, values),
    };
    match place {
        ParameterPlace::Segment(place) => {
            Outcome::When(SegmentCondition::new(name, place, wanted, values))
        }
        ParameterPlace::Rest => Outcome::Unknown(Inexpressible::Rest),
    }
}
