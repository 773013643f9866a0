//! Rows of the table of grants.

use super::Access;
use super::clients::who;
use super::requests::request_lines;
use std::collections::HashMap;

/// Requests with the same grants.
struct Block<'a> {
    about: &'a Access,
    what: Vec<String>,
    /// Clients and the object that admits them.
    grants: Vec<(String, String)>,
}

/// Route, hosts and grants: blocks with the same are one.
type FoldKey<'a> = (&'a str, &'a [String], Vec<(String, String)>);

/// One row per grant; several rows about the same requests show these only once. Routes of one object
/// with the same grants are listed above the object, so that a table of many routes can be read.
pub(super) fn rows(access: &[Access]) -> Vec<[String; 3]> {
    let mut folded: Vec<(Block<'_>, bool)> = Vec::new();
    let mut places: HashMap<FoldKey<'_>, usize> = HashMap::new();
    for block in blocks(access) {
        let known = block.about.route.as_deref().map(|route| {
            let key = (route, &block.about.hosts[..], block.grants.clone());
            *places.entry(key).or_insert(folded.len())
        });
        match known.and_then(|known| folded.get_mut(known)) {
            Some((known, several)) => {
                known.what.extend(block.what);
                *several = true;
            }
            None => folded.push((block, false)),
        }
    }
    folded.into_iter().flat_map(|(block, several)| block.rows(several)).collect()
}

fn blocks(access: &[Access]) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for entry in access {
        let grant = (who(entry), entry.by.clone().unwrap_or_default());
        let same = |known: &&mut Block<'_>| {
            let Access { route, what, hosts, exempt, .. } = known.about;
            (route, what, hosts, exempt) == (&entry.route, &entry.what, &entry.hosts, &entry.exempt)
        };
        match blocks.last_mut().filter(same) {
            Some(known) => known.grants.push(grant),
            None => {
                let (what, grants) = (entry.what.clone(), vec![grant]);
                blocks.push(Block { about: entry, what, grants });
            }
        }
    }
    blocks
}

impl Block<'_> {
    /// The rows of the block. Of several routes the grants stand beside the object, below all of them:
    /// no grant stands beside one route as if it were for that one alone.
    fn rows(self, several: bool) -> Vec<[String; 3]> {
        let Self { about, what, grants } = self;
        let mut rows = Vec::new();
        let mut first = request_lines(&what, &about.hosts, about.route.as_deref());
        if several {
            let of_route = first.split_off(what.len().min(first.len()));
            rows.push([first.join("\n"), String::new(), String::new()]);
            first = of_route;
        }
        let mut beside = Some(first.join("\n"));
        rows.extend(
            grants.into_iter().map(|(who, by)| [beside.take().unwrap_or_default(), who, by]),
        );
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(route: Option<&str>, what: &str, by: &str) -> Access {
        Access {
            route: route.map(str::to_owned),
            hosts: Vec::new(),
            what: vec![what.to_owned()],
            requires: Vec::new(),
            granted: true,
            by: Some(by.to_owned()),
            audited: false,
            exempt: false,
        }
    }

    #[test]
    fn routes_of_one_object_with_the_same_grants_are_listed_above_it() {
        let (books, web) = (Some("HttpRouteBinding a/books"), Some("HttpRouteBinding a/web"));
        let access = [
            entry(books, "GET /books/:id", "one"),
            entry(books, "GET /books/:id", "two"),
            entry(books, "POST /books", "one"),
            entry(web, "GET /", "one"),
            entry(books, "HEAD /books/:id", "one"),
            entry(books, "HEAD /books/:id", "two"),
            entry(None, "other requests", "one"),
            entry(None, "connections", "one"),
        ];
        let row = |what: &str, who: &str, by: &str| [what, who, by].map(str::to_owned);
        let expected = [
            row("GET /books/:id\nHEAD /books/:id", "", ""),
            row("(HttpRouteBinding a/books)", "everybody", "one"),
            row("", "everybody", "two"),
            row("POST /books\n(HttpRouteBinding a/books)", "everybody", "one"),
            row("GET /\n(HttpRouteBinding a/web)", "everybody", "one"),
            row("other requests", "everybody", "one"),
            row("connections", "everybody", "one"),
        ];
        assert_eq!(rows(&access), expected);
    }
}
