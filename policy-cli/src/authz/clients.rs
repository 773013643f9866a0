//! Clients that a grant admits, in words.

use super::{Access, ClientRequirement};

/// The clients that a row admits, in words.
pub(crate) fn who(entry: &Access) -> String {
    if !entry.granted {
        return "nobody".to_owned();
    }
    let words = match entry.requires.as_slice() {
        [] => "everybody".to_owned(),
        needs => {
            // Together with an identity, a requirement that any address fulfils adds nothing.
            let asks = |need: &&ClientRequirement| !is_anywhere(need) || needs.len() == 1;
            needs.iter().filter(asks).map(need).collect::<Vec<_>>().join("\nand ")
        }
    };
    let exempt = if entry.exempt { " (exempt)" } else { "" };
    let audited = if entry.audited { " (audited)" } else { "" };
    format!("{words}{exempt}{audited}")
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
            "from 10.0.0.0/8\nand any mesh identity"
        );
        assert_eq!(who(&entry(Vec::new())), "everybody");
    }
}
