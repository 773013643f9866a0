//! The texts that regular expressions are compared with, and whether an expression matches any of
//! them.
//!
//! The search walks the automaton of the expression and the grammar of the texts side by side. It
//! takes every assertion (`^`, `\b`) for true, so that it may overlook an expression that matches
//! nothing, and never takes one that matches something for such.

use crate::path_form::{is_plain, is_segment_character};
use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::{Capture, Hir, HirKind};
use std::collections::HashSet;

/// The most steps spent on the alternatives of one expression. Of a larger one only the whole is
/// looked at.
const MAX_STEPS: usize = 1 << 17;

/// The largest automaton that is walked, in bytes: more than one of an accepted expression.
const MAX_AUTOMATON: usize = 1024 * 1024;

/// A place in a text of some grammar.
pub(crate) trait Place: Copy + Eq + std::hash::Hash {
    /// The place before the first byte.
    const START: Self;
    /// Returns the place after `byte`; `None` if no text goes on so.
    fn after(self, byte: u8) -> Option<Self>;
    /// Returns true if a text may end here.
    fn may_end(self) -> bool;
}

/// A place in a match form of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InPath {
    /// Before the first byte. `CONNECT` has an empty path.
    Start,
    /// After `*`, of which the path of `OPTIONS *` consists.
    Star,
    /// After a character.
    Character,
    /// After `%`.
    Percent,
    /// After `%` and the digit of this value.
    Digit(u8),
}

impl Place for InPath {
    const START: Self = Self::Start;

    fn after(self, byte: u8) -> Option<Self> {
        let digit = |byte: u8| {
            let value = char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_lowercase())?;
            u8::try_from(value).ok()
        };
        match (self, byte) {
            (Self::Start, b'/') => Some(Self::Character),
            (Self::Start, b'*') => Some(Self::Star),
            (Self::Start | Self::Star, _) => None,
            (Self::Character, b'%') => Some(Self::Percent),
            (Self::Character, byte) => (is_plain(byte) || byte == b';').then_some(Self::Character),
            (Self::Percent, byte) => digit(byte).map(Self::Digit),
            (Self::Digit(first), byte) => {
                let octet = digit(byte)? | (first << 4);
                (!is_segment_character(octet)).then_some(Self::Character)
            }
        }
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Start | Self::Star | Self::Character)
    }
}

/// A place in a canonical host: a name, or an IPv6 address in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InHost {
    /// Before the first byte.
    Start,
    /// In a name.
    Name,
    /// In an address.
    Address,
    /// After an address.
    End,
}

impl Place for InHost {
    const START: Self = Self::Start;

    fn after(self, byte: u8) -> Option<Self> {
        let of_name = byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        match (self, byte) {
            (Self::Start, b'[') => Some(Self::Address),
            (Self::Address, b']') => Some(Self::End),
            (Self::Address, byte) => {
                let of_address = matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':' | b'.');
                of_address.then_some(Self::Address)
            }
            (Self::Start | Self::Name, _) => of_name.then_some(Self::Name),
            (Self::End, _) => None,
        }
    }

    fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::End)
    }
}

/// Returns an alternative of the expression, or the whole of it, that matches no text of the grammar.
/// `None` if there is none, or the expression does not parse.
pub(crate) fn useless_part<P: Place>(source: &str) -> Option<Hir> {
    let whole = regex_syntax::parse(source).ok()?;
    if !meets::<P>(&whole) {
        return Some(whole);
    }
    let size = automaton(&whole)?.states().len();
    if count_arms(&whole).saturating_mul(size) > MAX_STEPS {
        return None;
    }
    with_one_arm(&whole).into_iter().find(|(_, only)| !meets::<P>(only)).map(|(arm, _)| arm)
}

/// The number of alternatives that [`with_one_arm`] returns.
fn count_arms(parsed: &Hir) -> usize {
    let of_each = |parts: &[Hir]| parts.iter().map(count_arms).fold(0, usize::saturating_add);
    match parsed.kind() {
        HirKind::Alternation(arms) => arms.len().saturating_add(of_each(arms)),
        HirKind::Capture(Capture { sub, .. }) => count_arms(sub),
        HirKind::Concat(parts) => of_each(parts),
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_) => 0,
    }
}

/// Each alternative of the expression, beside the expression without its siblings. Those below a
/// repetition are left out, because they may match together what none matches by itself.
fn with_one_arm(parsed: &Hir) -> Vec<(Hir, Hir)> {
    match parsed.kind() {
        HirKind::Alternation(arms) => arms
            .iter()
            .flat_map(|arm| [(arm.clone(), arm.clone())].into_iter().chain(with_one_arm(arm)))
            .collect(),
        HirKind::Capture(Capture { sub, .. }) => with_one_arm(sub),
        HirKind::Concat(parts) => {
            let of_part = |(at, part): (usize, &Hir)| {
                with_one_arm(part).into_iter().map(move |(arm, only)| {
                    let mut parts = parts.clone();
                    if let Some(part) = parts.get_mut(at) {
                        *part = only;
                    }
                    (arm, Hir::concat(parts))
                })
            };
            parts.iter().enumerate().flat_map(of_part).collect()
        }
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_) => Vec::new(),
    }
}

fn automaton(parsed: &Hir) -> Option<NFA> {
    let config =
        Config::new().nfa_size_limit(Some(MAX_AUTOMATON)).which_captures(WhichCaptures::None);
    Compiler::new().configure(config).build_from_hir(parsed).ok()
}

/// Returns true if the expression matches the whole of some text, or is too large to say.
fn meets<P: Place>(parsed: &Hir) -> bool {
    let Some(automaton) = automaton(parsed) else { return true };
    let first = (automaton.start_anchored(), P::START);
    let mut seen = HashSet::from([first]);
    let mut open = vec![first];
    while let Some((state, place)) = open.pop() {
        let mut reach = |next: (StateID, P)| {
            if seen.insert(next) {
                open.push(next);
            }
        };
        match automaton.state(state) {
            State::Match { .. } if place.may_end() => return true,
            State::Match { .. } | State::Fail => {}
            State::Look { next, .. } | State::Capture { next, .. } => reach((*next, place)),
            State::Union { alternates } => alternates.iter().for_each(|to| reach((*to, place))),
            State::BinaryUnion { alt1, alt2 } => {
                reach((*alt1, place));
                reach((*alt2, place));
            }
            State::ByteRange { trans } => {
                each_step(place, trans.start..=trans.end, |to| reach((trans.next, to)));
            }
            State::Sparse(sparse) => {
                for trans in &sparse.transitions {
                    each_step(place, trans.start..=trans.end, |to| reach((trans.next, to)));
                }
            }
            State::Dense(dense) => {
                for byte in 0..=u8::MAX {
                    let to = dense.matches_byte(byte).zip(place.after(byte));
                    to.into_iter().for_each(&mut reach);
                }
            }
        }
    }
    false
}

fn each_step<P: Place>(place: P, bytes: impl Iterator<Item = u8>, reach: impl FnMut(P)) {
    bytes.filter_map(|byte| place.after(byte)).for_each(reach);
}
