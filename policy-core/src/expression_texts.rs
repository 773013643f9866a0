//! The texts that regular expressions are compared with, and whether an expression matches any of
//! them.
//!
//! The search walks the automaton of the expression and the grammar of the texts side by side. An
//! assertion (`^`, `\b`) is compared with the byte before it at once, and with the one after it when
//! that one is reached.

use crate::path_form::{is_plain, is_segment_character};
use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::{Capture, Hir, HirKind};
use std::collections::HashSet;
use std::ops::RangeInclusive;

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
    let arms = count_arms(&whole);
    if arms.saturating_mul(size) > MAX_STEPS {
        return None;
    }
    (0..arms).find_map(|number| {
        let (arm, only) = with_one_arm(&whole, &mut { number })?;
        (!meets::<P>(&only)).then_some(arm)
    })
}

/// The number of alternatives that [`with_one_arm`] knows.
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

/// An alternative of the expression, beside the expression without its siblings; `left` is the number of
/// those that come before it. Those below a repetition are left out, because they may match together
/// what none matches by itself. Takes time in the size of the expression.
fn with_one_arm(parsed: &Hir, left: &mut usize) -> Option<(Hir, Hir)> {
    match parsed.kind() {
        HirKind::Alternation(arms) => arms.iter().find_map(|arm| match left.checked_sub(1) {
            None => Some((arm.clone(), arm.clone())),
            Some(fewer) => {
                *left = fewer;
                with_one_arm(arm, left)
            }
        }),
        HirKind::Capture(Capture { sub, .. }) => with_one_arm(sub, left),
        HirKind::Concat(parts) => parts.iter().enumerate().find_map(|(at, part)| {
            let (arm, only) = with_one_arm(part, left)?;
            let mut only = Some(only);
            let all =
                parts.iter().enumerate().map(|(other, part)| match only.take_if(|_| other == at) {
                    Some(only) => only,
                    None => part.clone(),
                });
            Some((arm, Hir::concat(all.collect())))
        }),
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_) => None,
    }
}

fn automaton(parsed: &Hir) -> Option<NFA> {
    let config =
        Config::new().nfa_size_limit(Some(MAX_AUTOMATON)).which_captures(WhichCaptures::None);
    Compiler::new().configure(config).build_from_hir(parsed).ok()
}

/// The bytes that may come next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Next {
    end: bool,
    word: bool,
    other: bool,
}

impl Next {
    const ANY: Self = Self { end: true, word: true, other: true };
    const END: Self = Self { end: true, word: false, other: false };
    const WORD: Self = Self { end: false, word: true, other: false };
    const NO_WORD: Self = Self { end: true, word: false, other: true };

    fn and(self, also: Self) -> Self {
        let Self { end, word, other } = also;
        Self { end: self.end && end, word: self.word && word, other: self.other && other }
    }
}

/// A place in the automaton and in a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Step<P> {
    state: StateID,
    place: P,
    /// True after a letter, a digit or `_`. The texts have no others.
    after_word: bool,
    next: Next,
}

impl<P: Place> Step<P> {
    fn to(self, state: StateID) -> Self {
        Self { state, ..self }
    }

    /// After an assertion; `None` if it does not hold here.
    fn past(self, look: Look, state: StateID) -> Option<Self> {
        let (is_start, after_word) = (self.place == P::START, self.after_word);
        let boundary = if after_word { Next::NO_WORD } else { Next::WORD };
        let inside = if after_word { Next::WORD } else { Next::NO_WORD };
        // The texts have no line breaks.
        let (holds, next) = match look {
            Look::Start | Look::StartLF | Look::StartCRLF => (is_start, Next::ANY),
            Look::End | Look::EndLF | Look::EndCRLF => (true, Next::END),
            Look::WordAscii | Look::WordUnicode => (true, boundary),
            Look::WordAsciiNegate | Look::WordUnicodeNegate => (true, inside),
            Look::WordStartAscii | Look::WordStartUnicode => (!after_word, Next::WORD),
            Look::WordEndAscii | Look::WordEndUnicode => (after_word, Next::NO_WORD),
            Look::WordStartHalfAscii | Look::WordStartHalfUnicode => (!after_word, Next::ANY),
            Look::WordEndHalfAscii | Look::WordEndHalfUnicode => (true, Next::NO_WORD),
        };
        let next = self.next.and(next);
        (holds && next != Next { end: false, word: false, other: false }).then_some(Self {
            state,
            next,
            ..self
        })
    }

    /// After a byte; `None` if no text goes on so. `looks`: the expression has assertions.
    fn after(self, byte: u8, state: StateID, looks: bool) -> Option<Self> {
        let is_word = byte.is_ascii_alphanumeric() || byte == b'_';
        let place = self.place.after(byte)?;
        let may_come = if is_word { self.next.word } else { self.next.other };
        may_come.then_some(Self { state, place, after_word: looks && is_word, next: Next::ANY })
    }
}

/// Returns true if the expression matches the whole of some text, or is too large to say.
fn meets<P: Place>(parsed: &Hir) -> bool {
    let Some(automaton) = automaton(parsed) else { return true };
    let looks = !automaton.look_set_any().is_empty();
    let state = automaton.start_anchored();
    let first = Step { state, place: P::START, after_word: false, next: Next::ANY };
    let mut seen = HashSet::from([first]);
    let mut open = vec![first];
    while let Some(step) = open.pop() {
        let mut reach = |next: Step<P>| {
            if seen.insert(next) {
                open.push(next);
            }
        };
        let mut each = |next: StateID, bytes: RangeInclusive<u8>| {
            bytes.filter_map(|byte| step.after(byte, next, looks)).for_each(&mut reach);
        };
        match automaton.state(step.state) {
            State::Match { .. } if step.place.may_end() && step.next.end => return true,
            State::Match { .. } | State::Fail => {}
            State::Look { look, next } => step.past(*look, *next).into_iter().for_each(reach),
            State::Capture { next, .. } => reach(step.to(*next)),
            State::Union { alternates } => alternates.iter().for_each(|to| reach(step.to(*to))),
            State::BinaryUnion { alt1, alt2 } => {
                reach(step.to(*alt1));
                reach(step.to(*alt2));
            }
            State::ByteRange { trans } => each(trans.next, trans.start..=trans.end),
            State::Sparse(sparse) => {
                sparse.transitions.iter().for_each(|one| each(one.next, one.start..=one.end));
            }
            State::Dense(dense) => {
                for byte in 0..=u8::MAX {
                    dense.matches_byte(byte).into_iter().for_each(|next| each(next, byte..=byte));
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each alternative with the whole in which it is alone, as text.
    fn arms(source: &str) -> Vec<(String, String)> {
        let whole = regex_syntax::parse(source).unwrap();
        let one = |number| with_one_arm(&whole, &mut { number });
        assert_eq!(one(count_arms(&whole)), None);
        let all = (0..count_arms(&whole)).map(|number| one(number).unwrap());
        all.map(|(arm, only)| (arm.to_string(), only.to_string())).collect()
    }

    #[test]
    fn each_alternative_is_looked_at_alone() {
        assert_eq!(arms("ab"), []);
        assert_eq!(arms("(a|b)*"), []);
        let text = |arm: &str, only: &str| {
            let text = |source| regex_syntax::parse(source).unwrap().to_string();
            (text(arm), text(only))
        };
        assert_eq!(
            arms("x(aa|b(cc|dd)|ee)y"),
            [
                text("aa", "xaay"),
                text("b(cc|dd)", "xb(cc|dd)y"),
                text("cc", "xbccy"),
                text("dd", "xbddy"),
                text("ee", "xeey"),
            ]
        );
    }

    /// The most steps, of the deepest expression that is accepted.
    #[test]
    fn alternatives_of_alternatives_take_bounded_time() {
        let nested = (0..80).fold("cc".to_owned(), |inner, _| format!("(aa{inner}bb|dd)"));
        let whole = regex_syntax::parse(&nested).unwrap();
        let size = automaton(&whole).unwrap().states().len();
        let steps = count_arms(&whole).saturating_mul(size);
        assert!((MAX_STEPS / 2..=MAX_STEPS).contains(&steps), "{steps}");
        let begun = std::time::Instant::now();
        let source = format!("/{nested}");
        assert_eq!(useless_part::<InPath>(&source), None);
        let spent = begun.elapsed();
        assert!(spent < std::time::Duration::from_secs(5), "{spent:?}");
    }
}
