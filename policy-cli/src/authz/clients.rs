//! Clients that a grant admits, in words.

use super::{Access, ClientRequirement};

/// The clients that a row admits, in words.
pub(crate) fn who(entry: &Access) -> String {
    if !entry.granted {
        return "nobody".to_owned();
    }
    let words = match entry.requires.as_slice() {
        [] => "everybody".to_owned(),
        [one] => need(one),
        needs => together(needs),
    };
    let exempt = if entry.exempt { " (exempt)" } else { "" };
    let audited = if entry.audited { " (audited)" } else { "" };
    format!("{words}{exempt}{audited}")
}

/// Requirements that must hold together: the client, then what else is required of it. Joined by `and`
/// they would read as a list of clients.
fn together(needs: &[ClientRequirement]) -> String {
    // Together with others, a requirement that any address fulfils adds nothing.
    let mut needs: Vec<&ClientRequirement> =
        needs.iter().filter(|need| !is_anywhere(need)).collect();
    let is_any = |need: &ClientRequirement| need.identities == ["*"];
    if needs.iter().any(|need| !need.identities.is_empty() && !is_any(need)) {
        needs.retain(|need| !is_any(need));
    }
    let client = needs.iter().position(|need| !need.identities.is_empty());
    let client = client.or_else(|| needs.iter().position(|need| need.tls == Some("mesh")));
    let mut words: Vec<String> = Vec::new();
    if !needs.is_empty() {
        words.push(need(needs.remove(client.unwrap_or(0))));
    }
    words.extend(needs.into_iter().map(besides));
    match words.is_empty() {
        true => "any address".to_owned(),
        false => words.join(",\n"),
    }
}

/// A further requirement on a client.
fn besides(more: &ClientRequirement) -> String {
    match (&more.request, more.tls) {
        (Some(condition), _) => format!("for requests with {condition}"),
        (None, Some("mesh")) => "over mesh TLS".to_owned(),
        (None, Some(_)) => "over TLS that is passed through".to_owned(),
        (None, None) if !more.identities.is_empty() => format!("who is also {}", need(more)),
        (None, None) => need(more),
    }
}

/// True if an address of any network fulfils the requirement.
fn is_anywhere(need: &ClientRequirement) -> bool {
    let ClientRequirement { identities, networks, tls, request, from: _ } = need;
    identities.is_empty()
        && tls.is_none()
        && request.is_none()
        && *networks == ["0.0.0.0/0", "::/0"]
}

/// A requirement in words.
pub(crate) fn need(need: &ClientRequirement) -> String {
    if let Some(condition) = &need.request {
        return format!("requests with {condition}");
    }
    match (need.identities.as_slice(), need.networks.as_slice(), need.tls) {
        (_, _, Some("mesh")) => "any mesh TLS client".to_owned(),
        (_, _, Some(_)) => "TLS that is passed through".to_owned(),
        ([any], _, None) if any == "*" => "any mesh identity".to_owned(),
        ([], [], None) => "nobody".to_owned(),
        ([], _, None) if is_anywhere(need) => "any address".to_owned(),
        ([], networks, None) => format!("from {}", networks.join("\nor ")),
        (identities, _, None) => identities.join("\nor "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(requires: Vec<ClientRequirement>) -> Access {
        Access {
            route: None,
            hosts: Vec::new(),
            what: Vec::new(),
            requires,
            granted: true,
            by: None,
            audited: false,
            exempt: false,
        }
    }

    fn networks(networks: &[&str]) -> ClientRequirement {
        let networks = networks.iter().map(|network| (*network).to_owned()).collect();
        ClientRequirement { networks, ..ClientRequirement::default() }
    }

    #[test]
    fn an_identity_of_any_address_is_an_identity() {
        let any = || networks(&["0.0.0.0/0", "::/0"]);
        let named = |name: &str| ClientRequirement {
            identities: vec![name.to_owned()],
            ..ClientRequirement::default()
        };
        assert_eq!(who(&entry(vec![any(), named("*")])), "any mesh identity");
        assert_eq!(who(&entry(vec![any(), named("web")])), "web");
        assert_eq!(who(&entry(vec![any()])), "any address");
        assert_eq!(
            who(&entry(vec![networks(&["10.0.0.0/8"]), named("*")])),
            "any mesh identity,\nfrom 10.0.0.0/8"
        );
        assert_eq!(who(&entry(vec![any(), any()])), "any address");
        assert_eq!(who(&entry(Vec::new())), "everybody");
    }

    /// "counsel and any mesh TLS client" read as if every mesh client could call.
    #[test]
    fn what_must_hold_together_is_never_a_list_of_clients() {
        let named = |name: &str| ClientRequirement {
            identities: vec![name.to_owned()],
            ..ClientRequirement::default()
        };
        let mesh = || ClientRequirement { tls: Some("mesh"), ..ClientRequirement::default() };
        let near = || networks(&["10.0.0.0/8"]);
        let condition = ClientRequirement {
            request: Some("id in [1]".to_owned()),
            ..ClientRequirement::default()
        };
        assert_eq!(who(&entry(vec![named("counsel"), mesh()])), "counsel,\nover mesh TLS");
        assert_eq!(who(&entry(vec![near(), mesh()])), "any mesh TLS client,\nfrom 10.0.0.0/8");
        assert_eq!(who(&entry(vec![mesh(), named("*")])), "any mesh identity,\nover mesh TLS");
        assert_eq!(who(&entry(vec![named("*"), named("counsel")])), "counsel");
        assert_eq!(who(&entry(vec![named("a"), named("b")])), "a,\nwho is also b");
        assert_eq!(
            who(&entry(vec![condition, near(), named("a")])),
            "a,\nfor requests with id in [1],\nfrom 10.0.0.0/8"
        );
    }
}
