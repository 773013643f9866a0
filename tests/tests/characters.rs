//! Characters in paths: two targets that one of six HTTP servers routes alike (`tests/servers`) are matched
//! alike, or one of them is refused.

use policy_core::{canonical_path, match_form};
use policy_tests::servers::{Character, characters};
use std::collections::{BTreeMap, BTreeSet};

/// The form that routes are matched on; none: the target is refused.
fn matched(target: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(target).ok()?;
    if text.contains('#') {
        // The sidecar refuses a target with a fragment; the library would cut it off.
        return None;
    }
    let uri: http::Uri = text.parse().ok()?;
    let path = canonical_path(uri.path()).ok()?;
    Some(match_form(&path).into_owned())
}

/// The paths that each server reads in a target, by the name of the server and of the reading. Not those
/// with U+FFFD, which stands for any byte that is no UTF-8: no route is written with it. Nor what
/// `decodeURI` leaves encoded: it writes `%2540` like `%40`. Nor several captures of a router, which the
/// record joins with a blank.
fn readings(character: &Character) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (server, answer) in &character.answers {
        found.extend(answer.path.iter().map(|path| (server.clone(), path.clone())));
        let views = answer.views.iter();
        found.extend(views.map(|(view, path)| (format!("{server} {view}"), path.clone())));
    }
    let several = character.target.iter().filter(|byte| **byte == b'/').count() > 1;
    found.retain(|(name, path)| {
        if several && (name.ends_with("axum") || name.ends_with("mux")) {
            return false;
        }
        let lost = path.windows(3).any(|part| part == "\u{fffd}".as_bytes());
        let kept = name.ends_with("decode_uri") && path.contains(&b'%');
        !lost && !kept
    });
    found
}

#[test]
fn targets_that_a_server_routes_alike_are_matched_alike() {
    let mut forms: BTreeMap<(String, Vec<u8>), BTreeSet<String>> = BTreeMap::new();
    let mut targets = 0;
    for character in characters().unwrap() {
        let Some(form) = matched(&character.target) else { continue };
        targets += 1;
        for reading in readings(&character) {
            forms.entry(reading).or_default().insert(form.clone());
        }
    }
    assert!(targets > 200, "{targets} targets are matched at all");
    let different: Vec<_> = forms.iter().filter(|(_, forms)| forms.len() > 1).collect();
    let shown: Vec<String> = different
        .iter()
        .map(|((name, path), forms)| format!("{name} reads {} in {forms:?}", path.escape_ascii()))
        .collect();
    assert!(shown.is_empty(), "{} paths:\n{}", shown.len(), shown.join("\n"));
}

#[test]
fn every_segment_character_is_matched_alike_in_all_spellings() {
    for byte in b"!$&'()*+,=:@-._~aZ5" {
        let plain = format!("/admin{}x", char::from(*byte));
        for encoded in [format!("/admin%{byte:02X}x"), format!("/admin%{byte:02x}x")] {
            assert_eq!(matched(encoded.as_bytes()), Some(plain.clone()), "{encoded}");
        }
        let twice = format!("/admin%25{byte:02X}x");
        assert_eq!(matched(twice.as_bytes()), Some(twice.clone()), "decoded once only");
    }
    for refused in ["/admin;x", "/admin%3Bx", "/admin%2Fx", "/admin%5Cx", "/admin%00x"] {
        assert_eq!(matched(refused.as_bytes()), None, "{refused}");
    }
}
