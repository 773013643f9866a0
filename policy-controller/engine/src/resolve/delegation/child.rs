//! One edge of a tree: from a rule that delegates to an object that it names. The rules are tried in
//! this order: permission, existence, no root, no cycle, consent, containment, bounds. The first
//! that fails is the one that is reported.

use super::consent::{below, consents_to};
use super::kept::{RuleSet, is_inside};
use super::place::those;
use crate::incremental::Context;
use crate::query::condition::Reason;
use crate::query::delegation::{EdgeFault, Labelled};
use crate::query::grant::CreationOrder;
use crate::query::requests::{DescribedRoutes, DescribedRoutesOf};
use crate::resolve::reference::{ReferenceError, follow, is_permitted};
use policy_core::{HostPattern, PathPattern};
use policy_crds::resource::{Delegate, GroupPath, InboundRoute, PathPrefix, RouteResource};
use policy_crds::{Body, Claims, Field, Invalid, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most objects that a selector may select.
const MAX_SELECTED: usize = 32;

/// The place from which a rule delegates.
pub(super) struct Delegator<'t> {
    /// The objects from the root to the one that delegates.
    pub(super) chain: &'t [ObjectKey],
    /// The path that is delegated.
    pub(super) path: &'t PathPrefix,
    /// The hosts that reach it.
    pub(super) hosts: &'t Arc<[HostPattern]>,
    /// True if routes with regular expressions may be children of `/`.
    pub(super) allow_regex: bool,
}

/// A child that a path may be handed to.
pub(super) struct Child<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) content: ChildContent<'a>,
    /// The hosts that it consents to; not empty.
    pub(super) hosts: Arc<[HostPattern]>,
}

impl<'a> Child<'a> {
    /// Its name, its hosts and its content, if it is an InboundRoute.
    pub(super) fn vertex(&self) -> Option<Vertex<'a>> {
        match self.content {
            ChildContent::Vertex(route) => Some((self.key, self.hosts.clone(), route)),
            ChildContent::Broken(..)
            | ChildContent::Refused(..)
            | ChildContent::Route(_)
            | ChildContent::Group(_) => None,
        }
    }

    /// Its rules; of a route none.
    pub(super) fn rules(&self) -> RuleSet<'a> {
        let rules = match self.content {
            ChildContent::Vertex(route) | ChildContent::Refused(route, _) => &route.routes[..],
            ChildContent::Broken(..) | ChildContent::Route(_) | ChildContent::Group(_) => &[],
        };
        let kept = match self.content {
            ChildContent::Broken(paths, _) => paths,
            ChildContent::Vertex(_)
            | ChildContent::Refused(..)
            | ChildContent::Route(_)
            | ChildContent::Group(_) => &[],
        };
        let paths = rules.iter().map(|rule| &rule.path).chain(kept).collect();
        RuleSet { hosts: self.hosts.clone(), paths }
    }
}

/// An InboundRoute: its name, the hosts that it consents to, and its content.
pub(super) type Vertex<'a> = (&'a ObjectKey, Arc<[HostPattern]>, &'a InboundRoute);

/// The content of a child.
pub(super) enum ChildContent<'a> {
    Vertex(&'a InboundRoute),
    /// The paths of an invalid InboundRoute that is selected with others. They stay closed, because a
    /// correction of it would have them.
    Broken(&'a [PathPrefix], EdgeFault),
    /// An InboundRoute that is selected with others and does not take part. Its paths stay closed, because
    /// what it says of them is narrower than what the others may say.
    Refused(&'a InboundRoute, EdgeFault),
    Route(&'a RouteResource),
    Group(Arc<DescribedRoutes>),
}

impl ChildContent<'_> {
    /// The number of its paths.
    pub(super) fn paths(&self) -> usize {
        match self {
            Self::Vertex(route) | Self::Refused(route, _) => route.routes.len(),
            Self::Broken(paths, _) => paths.len(),
            Self::Route(route) => route.rules.iter().map(|rule| rule.matches.len()).sum(),
            Self::Group(group) => group.matches,
        }
    }
}

/// The children that a rule delegates to, in order, each with its fault if it is refused; or the
/// fault of the rule as a whole.
pub(super) fn children<'a>(
    cx: &mut Context<'a>,
    from: &Delegator<'_>,
    delegate: &Delegate,
) -> Result<Vec<Result<Child<'a>, EdgeFault>>, EdgeFault> {
    let Some(parent) = from.chain.last() else { return Ok(Vec::new()) };
    match delegate {
        Delegate::One(key) => {
            let object = match follow(cx, parent, Field::Delegate, key) {
                Ok(followed) => followed.object,
                Err(error) => return Ok(vec![Err(unusable(error, key))]),
            };
            Ok(vec![child(cx, from, parent, object)])
        }
        Delegate::Selected { namespace, labels } => {
            let selection = Labelled { namespace: namespace.clone(), labels: labels.clone() };
            let mut found = Vec::new();
            for object in selected(cx, parent, selection)? {
                let closed = broken(from, parent, object)?;
                found.push(closed.map_or_else(|| child(cx, from, parent, object), Ok));
            }
            if *namespace != parent.namespace {
                conceal(&mut found);
            }
            Ok(found)
        }
    }
}

/// The objects with some labels that a delegator may select, in order.
///
/// # Errors
/// There are none or too many, or one of them may be a root.
fn selected<'a>(
    cx: &mut Context<'a>,
    parent: &ObjectKey,
    selection: Labelled,
) -> Result<Vec<&'a Arc<Object>>, EdgeFault> {
    let namespace = selection.namespace.clone();
    let labelled = cx.query(&selection);
    let mut objects: Vec<&'a Arc<Object>> = Vec::new();
    for key in labelled.iter() {
        // Without a grant nothing is learnt of an object, not even that it has the labels.
        if is_permitted(cx, parent, Field::Delegate, key) {
            objects.extend(cx.object(key));
        }
        if objects.len() > MAX_SELECTED {
            let message = format!("more than {MAX_SELECTED} objects have the labels");
            return Err(fault(Reason::TooLarge, message, None));
        }
    }
    if let Some(root) = objects.iter().find(|object| may_be_root(object)) {
        let message = match (namespace != parent.namespace, &root.body) {
            (true, _) => "an object with the labels is a root, or may be one".to_owned(),
            (false, Body::Valid(_)) => format!("{} has the labels, and is a root", root.meta.key),
            (false, Body::Invalid(_)) => {
                format!("{} has the labels, and is or may be a root: it is invalid", root.meta.key)
            }
        };
        return Err(fault(Reason::SelectorMatchesRoot, message, None));
    }
    if objects.is_empty() {
        let message =
            format!("no InboundRoute in namespace `{namespace}` that can be used has the labels");
        return Err(fault(Reason::RefNotPermitted, message, None));
    }
    objects.sort_by_key(|object| CreationOrder::of(&object.meta));
    Ok(objects)
}

/// True for a root, and for an invalid object that may be one: an error in a root opens no path that it
/// closed.
fn may_be_root(object: &Object) -> bool {
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => route.virtual_host.is_some(),
        Body::Invalid(Invalid { claims: Claims::InboundRoute { root, .. }, .. }) => *root,
        Body::Valid(_) | Body::Invalid(_) => false,
    }
}

/// The paths that an invalid object that labels select keeps from the others; `None` for one that is valid or has
/// no host that reaches the rule.
///
/// # Errors
/// One with a path that cannot be read may have any.
fn broken<'a>(
    from: &Delegator<'_>,
    parent: &ObjectKey,
    object: &'a Object,
) -> Result<Option<Child<'a>>, EdgeFault> {
    let Body::Invalid(Invalid { claims, .. }) = &object.body else { return Ok(None) };
    let Claims::InboundRoute { hosts, any_host, paths, .. } = claims else { return Ok(None) };
    let key = &object.meta.key;
    let hosts = those(from.hosts, |host| *any_host || hosts.contains(host));
    if hosts.is_empty() {
        return Ok(None);
    }
    // The delegator of another namespace learns nothing of an object that may not have consented.
    let fault = if *any_host && key.namespace != parent.namespace {
        fault(Reason::RefNotPermitted, CONCEALED.to_owned(), None)
    } else {
        unusable(ReferenceError::Invalid, key)
    };
    let Some(paths) = paths else { return Err(fault) };
    Ok(Some(Child { key, content: ChildContent::Broken(paths, fault), hosts }))
}

/// The state of selected objects of another namespace that cannot be used.
const CONCEALED: &str = "objects with the labels cannot be used from this namespace";

/// Leaves out the faults of selected objects of another namespace that did not consent, because the
/// delegator must not learn their names. One fault without a name stands for all.
fn conceal(found: &mut Vec<Result<Child<'_>, EdgeFault>>) {
    let all = found.len();
    found.retain(|child| match child {
        Ok(_) => true,
        Err(fault) => !matches!(
            fault.reason,
            Reason::RefNotPermitted | Reason::RefInvalid | Reason::InvalidKind
        ),
    });
    if found.len() < all {
        found.push(Err(fault(Reason::RefNotPermitted, CONCEALED.to_owned(), None)));
    }
}

pub(super) fn fault(reason: Reason, message: String, child: Option<&ObjectKey>) -> EdgeFault {
    EdgeFault { reason, message: message.into(), child: child.cloned(), hosts: Vec::new() }
}

/// The state of an object in another namespace, for a delegator. There may be a grant.
const UNUSABLE: &str = "cannot be used from this namespace: the object, a ReferenceGrant \
                                   for it or its consent is missing";

/// The faults of children that take part, on the hosts that none of them lists. Across namespaces the
/// delegator does not learn what is missing.
pub(super) fn unlisted(
    parent: Option<&ObjectKey>,
    children: &[ObjectKey],
    closed: BTreeSet<HostPattern>,
) -> Vec<EdgeFault> {
    let hosts: Vec<HostPattern> = closed.into_iter().collect();
    let Some(parent) = parent.filter(|_| !hosts.is_empty()) else { return Vec::new() };
    let unlisted = |child: &ObjectKey| {
        let (reason, message) = match child.namespace == parent.namespace {
            true => (Reason::NotPermitted, format!("{child} does not consent there")),
            false => (Reason::RefNotPermitted, format!("{child} {UNUSABLE}")),
        };
        EdgeFault { hosts: hosts.clone(), ..fault(reason, message, Some(child)) }
    };
    children.iter().map(unlisted).collect()
}

/// The fault of a reference that is not followed. Across namespaces it does not say if the grant or
/// the object is missing.
fn unusable(error: ReferenceError, key: &ObjectKey) -> EdgeFault {
    let reason = match error {
        ReferenceError::Missing => Reason::RefNotFound,
        ReferenceError::Invalid => Reason::RefInvalid,
        ReferenceError::NotPermitted => Reason::RefNotPermitted,
        ReferenceError::Unsupported => Reason::InvalidKind,
    };
    let words = match error {
        ReferenceError::NotPermitted => UNUSABLE,
        ReferenceError::Missing | ReferenceError::Invalid | ReferenceError::Unsupported => {
            error.as_str()
        }
    };
    fault(reason, format!("{key} {words}"), Some(key))
}

fn child<'a>(
    cx: &mut Context<'_>,
    from: &Delegator<'_>,
    parent: &ObjectKey,
    object: &'a Arc<Object>,
) -> Result<Child<'a>, EdgeFault> {
    let key = &object.meta.key;
    let refused = |reason, message: String| Err(fault(reason, message, Some(key)));
    // The delegator of another namespace does not learn what else is wrong with an object that did
    // not consent.
    let unwilling = || {
        let message = if key.namespace == parent.namespace {
            format!(
                "{key} does not consent: its delegatedFrom, or the hostnames and parentRefs of \
                     a route, must name {parent} or its host"
            )
        } else {
            format!("{key} {UNUSABLE}")
        };
        let reason = if key.namespace == parent.namespace {
            Reason::NotPermitted
        } else {
            Reason::RefNotPermitted
        };
        refused(reason, message)
    };
    if let Body::Valid(Resource::InboundRoute(route)) = &object.body {
        if route.virtual_host.is_some() {
            return refused(Reason::RootIncludesRoot, format!("{key} is a root itself"));
        }
        if from.chain.contains(key) {
            return refused(Reason::Cycle, format!("{key} leads here"));
        }
    } else if !matches!(&object.body, Body::Valid(Resource::Route(_) | Resource::HttpRouteGroup(_)))
    {
        return Err(unusable(ReferenceError::Invalid, key));
    }
    let hosts = those(from.hosts, |host| consents_to(object, parent, host));
    if hosts.is_empty() {
        let below = from.hosts.iter().find_map(|wide| Some((below(object, parent, wide)?, wide)));
        return match below {
            // It consented to a part, so that the delegator may learn why that is not enough.
            Some((own, wide)) => refused(
                Reason::NotPermitted,
                format!(
                    "{key} consents to {own} alone, and {wide} is handed down as a whole: list {wide} in its \
                     delegatedFrom, or claim {own} by a root of its own"
                ),
            ),
            None => unwilling(),
        };
    }
    Ok(Child { key, content: content_inside(cx, from, object)?, hosts })
}

/// The content of a child, if all of its matches are inside the path that is delegated.
fn content_inside<'a>(
    cx: &mut Context<'_>,
    from: &Delegator<'_>,
    object: &'a Object,
) -> Result<ChildContent<'a>, EdgeFault> {
    let key = &object.meta.key;
    let refused = |message: String| Err(fault(Reason::PrefixNotContained, message, Some(key)));
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => {
            let outside = route.routes.iter().find(|rule| !from.path.contains(&rule.path));
            match outside {
                Some(rule) => refused(format!(
                    "{key} has the match `{}`, which is not inside `{}`",
                    rule.path.as_str(),
                    from.path.as_str()
                )),
                None => Ok(ChildContent::Vertex(route)),
            }
        }
        Body::Valid(Resource::Route(route)) => match outside(route, from) {
            Some(message) => refused(format!("{key}: {message}")),
            None => Ok(ChildContent::Route(route)),
        },
        Body::Valid(Resource::HttpRouteGroup(_)) => {
            Ok(ChildContent::Group(group_inside(cx, key, from)?))
        }
        Body::Valid(_) | Body::Invalid(_) => Err(unusable(ReferenceError::Invalid, key)),
    }
}

/// The routes of a group, all of which are inside the path that is delegated.
fn group_inside(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    from: &Delegator<'_>,
) -> Result<Arc<DescribedRoutes>, EdgeFault> {
    let routes = cx.query(&DescribedRoutesOf(key.clone()));
    if !routes.faults.is_empty() {
        return Err(unusable(ReferenceError::Invalid, key));
    }
    let outside = |path: &GroupPath| !from.path.contains(&path.static_prefix());
    let outside = routes.each().map(|route| route.path).find(outside);
    if let Some(path) = outside {
        let message = format!("{key} has the path `{path}`, which is not inside `{}`", from.path);
        return Err(fault(Reason::PrefixNotContained, message, Some(key)));
    }
    Ok(routes)
}

/// The first match of a route that is not inside the delegated path, in words.
fn outside(route: &RouteResource, from: &Delegator<'_>) -> Option<String> {
    let everything = from.path.as_str() == "/";
    for (i, rule) in route.rules.iter().enumerate() {
        for (j, request) in rule.matches.iter().enumerate() {
            let contained = match &*request.path.in_match_form() {
                PathPattern::Regex(_) => everything && from.allow_regex,
                PathPattern::Segments { segments, .. } => {
                    everything || is_inside(segments, from.path)
                }
            };
            if !contained {
                return Some(format!(
                    "spec.rules[{i}].matches[{j}] is not inside `{}`",
                    from.path.as_str()
                ));
            }
        }
    }
    None
}
