//! What must become of a request, spelled out on the segments of paths.

use super::requests::Request;
use super::world::{Class, Entry, FOREIGN, Key, Operator, Target, Timeout, World};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What becomes of a request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The path can be read in two ways.
    Ambiguous,
    /// No route is for it, or no binding of the Server is valid and whole.
    NoRoute,
    /// A route is for it, and nobody grants it to the client.
    Denied,
    /// It may be meant by something that cannot be read.
    Unreadable,
    /// It is permitted, within these bounds in seconds, and these rules of policies about headers apply, by
    /// number of the policy and of the rule.
    Permitted(Bounds, Vec<(usize, usize)>),
}

/// Bounds on an exchange, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Until the response is complete.
    pub complete: Option<u64>,
    /// Until the head of the response.
    pub head: Option<u64>,
    /// From the end of the request to the head of the response.
    pub response: Option<u64>,
    /// Without a frame.
    pub idle: Option<u64>,
}

/// A route of a group, of one method, that a binding brings to the Server.
#[derive(Clone, Debug)]
struct Bound {
    binding: usize,
    broken: bool,
    /// False if its path cannot be read: then what can be read denies before all others.
    readable: bool,
    path: String,
    method: Option<&'static str>,
    header: bool,
    team: Option<&'static str>,
}

/// The answer to a request of a client.
pub fn answer(world: &World, request: &Request, client: &str) -> Answer {
    let Some(segments) = segments(&request.path) else { return Answer::Ambiguous };
    let all: Vec<Bound> = (0..world.bindings.len()).flat_map(|at| brought(world, at)).collect();
    if (0..world.bindings.len()).all(|at| !is_whole(world, at)) {
        return Answer::NoRoute;
    }
    let fits = |route: &&Bound| {
        (!route.readable || matches(&route.path, &segments))
            && route.method.is_none_or(|method| method == request.method)
            && (request.header || !route.header)
    };
    let candidates: Vec<&Bound> = all.iter().filter(fits).collect();
    if candidates.iter().any(|route| !route.readable) {
        return Answer::Unreadable;
    }
    let Some(first) = candidates.iter().map(|route| rank(route)).min() else {
        return Answer::NoRoute;
    };
    let chosen = || candidates.iter().filter(|route| rank(route) == first && !route.broken);
    let on = |target: Target| match target {
        Target::Server => chosen().next().is_some(),
        Target::Binding(at) => chosen().any(|route| route.binding == at),
        Target::Class(at) => chosen().any(|route| selects(&world.classes[at], route, &segments)),
    };
    let grants = world.policies.iter().filter(|policy| on(policy.target));
    let mut grants = grants.filter(|policy| policy.client.is_none_or(|named| named == client));
    if grants.next().is_none() {
        return Answer::Denied;
    }
    let bounds = bounds(world.timeouts.iter().filter(|policy| on(policy.target)));
    Answer::Permitted(bounds, rules(world, request.header, on))
}

/// The rules that change headers: those of bindings before those of classes before those of the Server,
/// older ones first, then by name.
fn rules(world: &World, header: bool, on: impl Fn(Target) -> bool) -> Vec<(usize, usize)> {
    let place = |number: usize| {
        let policy = &world.rewrites[number];
        let level = match policy.target {
            Target::Binding(_) => 0,
            Target::Class(_) => 1,
            Target::Server => 2,
        };
        (level, policy.created, number)
    };
    let mut order: Vec<usize> = (0..world.rewrites.len()).collect();
    order.retain(|number| on(world.rewrites[*number].target));
    order.sort_by_key(|number| place(*number));
    let of_policy = |number: usize| {
        let rules = world.rewrites[number].rules.iter().enumerate();
        let applying = rules.filter(move |(_, wanted)| wanted.is_none_or(|own| own == header));
        applying.map(move |(rule, _)| (number, rule))
    };
    order.into_iter().flat_map(of_policy).collect()
}

/// The smaller a rank, the earlier it is tried.
type Rank = (Vec<u8>, bool, Reverse<bool>);

/// From the left, static before parameter before rest; then with a method before without; then with a
/// header before without.
fn rank(route: &Bound) -> Rank {
    let kind = |part: &&str| match part.chars().next() {
        Some(':') => 1,
        Some('*') => 2,
        Some(_) | None => 0,
    };
    let kinds = parts(&route.path).iter().map(kind).collect();
    (kinds, route.method.is_none(), Reverse(route.header))
}

/// The segments of a path of a group. A slash at its end means nothing.
fn parts(path: &str) -> Vec<&str> {
    let inner = path.strip_prefix('/').unwrap();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.is_empty() { Vec::new() } else { inner.split('/').collect() }
}

/// The texts that the segments of a request mean; `None` if parsers differ about them. A slash at the end
/// means nothing.
fn segments(path: &str) -> Option<Vec<String>> {
    let mut segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    if segments.last() == Some(&"") {
        segments.pop();
    }
    let clean = |segment: &&str| {
        let text = decoded(segment)?;
        let odd = |c: char| matches!(c, '/' | '\\' | ';') || c.is_control();
        (!matches!(&*text, "" | "." | "..") && !text.contains(odd)).then_some(text)
    };
    segments.iter().map(clean).collect()
}

/// The text that a segment means, once decoded; `None` if it means none.
fn decoded(segment: &str) -> Option<String> {
    let mut pieces = segment.split('%');
    let mut text = pieces.next()?.to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        let byte = u8::from_str_radix(digits, 16).ok()?;
        text.push(char::from(byte));
        text.push_str(rest);
    }
    Some(text)
}

/// Returns true if the path of a group matches that of a request.
pub fn path_matches(path: &str, request: &str) -> bool {
    segments(request).is_some_and(|segments| matches(path, &segments))
}

fn matches(path: &str, segments: &[String]) -> bool {
    let parts = parts(path);
    for (at, part) in parts.iter().enumerate() {
        let Some(segment) = segments.get(at) else { return false };
        match part.chars().next() {
            Some('*') => return true,
            Some(':') => {}
            _ if decoded(part).as_deref() != Some(segment) => return false,
            _ => {}
        }
    }
    parts.len() == segments.len()
}

/// The routes that a binding brings. One that is broken brings what it can, and nobody has it.
fn brought(world: &World, at: usize) -> Vec<Bound> {
    let (found, whole) = included(world, at);
    let bound = |route: Bound| Bound { binding: at, broken: !whole, ..route };
    found.into_iter().map(bound).collect()
}

/// Returns true if a binding is valid and nothing that it includes is missing.
fn is_whole(world: &World, at: usize) -> bool {
    included(world, at).1
}

fn included(world: &World, at: usize) -> (Vec<Bound>, bool) {
    let binding = &world.bindings[at];
    let mut found = Vec::new();
    if !binding.valid {
        // It is written without groups, and may have named any.
        found.push(unreadable(None, false));
        return (found, false);
    }
    let mut whole = true;
    for group in &binding.groups {
        whole &= include(world, *group, &mut Way::default(), &mut found);
    }
    (found, whole)
}

/// The groups above, and what they say of every route below.
#[derive(Clone, Default)]
struct Way {
    above: BTreeSet<usize>,
    header: bool,
    /// Of the outermost that says one.
    team: Option<&'static str>,
}

/// Adds the routes of a group; false if it is not there, invalid, of another namespace that does not
/// permit it, one of those above, or includes one that cannot be included.
fn include(world: &World, group: usize, way: &mut Way, found: &mut Vec<Bound>) -> bool {
    let permitted = group != FOREIGN || world.granted || way.above.contains(&FOREIGN);
    let Some(own) = world.groups[group].as_ref().filter(|_| permitted) else {
        return false;
    };
    if !way.above.insert(group) {
        return false;
    }
    let header = way.header || own.header;
    if !own.valid {
        found.extend(own.entries.iter().flat_map(|entry| broken(entry, header)));
        return false;
    }
    let mut whole = true;
    for entry in &own.entries {
        match entry {
            Entry::Route(route) => {
                let any = route.methods.is_empty().then_some(None);
                for method in route.methods.iter().copied().map(Some).chain(any) {
                    found.push(Bound {
                        binding: 0,
                        broken: false,
                        readable: true,
                        path: route.path.clone(),
                        method,
                        header: header || route.header,
                        team: way.team.or(route.team),
                    });
                }
            }
            Entry::Include(other, team) => {
                // Those of the other namespace name groups of their own, of which there are none.
                let leaves = group == FOREIGN;
                let mut below = Way { above: way.above.clone(), header, team: way.team.or(*team) };
                whole &= !leaves && include(world, *other, &mut below, found);
            }
        }
    }
    whole
}

/// An element of an invalid group, which is written without a path that can be read.
fn broken(entry: &Entry, header: bool) -> Vec<Bound> {
    match entry {
        Entry::Route(route) => {
            let any = route.methods.is_empty().then_some(None);
            let methods = route.methods.iter().copied().map(Some).chain(any);
            methods.map(|method| unreadable(method, header || route.header)).collect()
        }
        Entry::Include(..) => vec![unreadable(None, header)],
    }
}

fn unreadable(method: Option<&'static str>, header: bool) -> Bound {
    let (path, team) = (String::new(), None);
    Bound { binding: 0, broken: true, readable: false, path, method, header, team }
}

fn selects(class: &Class, route: &Bound, segments: &[String]) -> bool {
    class.conditions.iter().all(|(key, operator)| match key {
        Key::Team => holds(operator, route.team),
        Key::Path => {
            let path = route.path.strip_suffix('/').unwrap_or(&route.path);
            holds(operator, Some(if path.is_empty() { "/" } else { path }))
        }
        Key::Method => match (operator, route.method) {
            (Operator::In(_) | Operator::NotIn(_), None) => false,
            (Operator::Exists, None) => true,
            (Operator::DoesNotExist, None) => false,
            (_, Some(method)) => holds(operator, Some(method)),
        },
        Key::Parameter(name) => parameter(operator, name, route, segments),
    })
}

/// As Kubernetes' label selectors.
fn holds(operator: &Operator, value: Option<&str>) -> bool {
    match operator {
        Operator::In(texts) => value.is_some_and(|value| texts.iter().any(|text| text == value)),
        Operator::NotIn(texts) => !value.is_some_and(|own| texts.iter().any(|text| text == own)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

/// A route without the parameter meets neither `In` nor `NotIn`, and `*rest` has no text.
fn parameter(operator: &Operator, name: &str, route: &Bound, segments: &[String]) -> bool {
    let parts = parts(&route.path);
    let named = |part: &str| part.strip_prefix([':', '*']) == Some(name);
    let Some(at) = parts.iter().position(|part| named(part)) else {
        return matches!(operator, Operator::DoesNotExist);
    };
    let one_of = |texts: &[String]| {
        texts.iter().any(|text| decoded(text).as_deref() == segments.get(at).map(|own| &**own))
    };
    match operator {
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::In(_) | Operator::NotIn(_) if parts[at].starts_with('*') => false,
        Operator::In(texts) => one_of(texts),
        Operator::NotIn(texts) => !one_of(texts),
    }
}

fn bounds<'a>(policies: impl Iterator<Item = &'a Timeout>) -> Bounds {
    let mut bounds = Bounds::default();
    let shorten = |known: &mut Option<u64>, bound: Option<u64>| {
        *known = match (*known, bound) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    };
    for policy in policies {
        let request = if policy.unbounded { &mut bounds.head } else { &mut bounds.complete };
        shorten(request, policy.request);
        shorten(&mut bounds.response, policy.response);
        shorten(&mut bounds.idle, policy.idle);
    }
    bounds
}
