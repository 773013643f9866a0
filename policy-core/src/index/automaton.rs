//! Regular expressions as tables that are walked byte by byte, so that matching never allocates.
//!
//! All the expressions of one host table share one automaton where they fit: one walk over the
//! path finds every expression that matches it.

use crate::pattern::Pattern;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use std::collections::HashMap;
use std::sync::Arc;

/// The largest table for one group of expressions, and the most work spent on making it, in bytes.
const MAX_TABLE: usize = 1024 * 1024;
const MAX_WORK: usize = 4 * 1024 * 1024;

/// Compiles expressions to automata within the memory budget of one policy. Expressions beyond the
/// budget are matched by the general engine: slower, but correct.
#[derive(Debug)]
pub(crate) struct RegexCompiler {
    left: usize,
    single: HashMap<Box<str>, Arc<CompiledRegex>>,
}

/// The memory budget for the automata of one policy, in bytes.
const SHARE: usize = 8 * 1024 * 1024;

impl Default for RegexCompiler {
    fn default() -> Self {
        Self { left: SHARE, single: HashMap::new() }
    }
}

impl RegexCompiler {
    /// The automaton of one expression; the same one for equal expressions.
    pub(crate) fn single(&mut self, pattern: &Pattern) -> Arc<CompiledRegex> {
        if let Some(known) = self.single.get(pattern.source()) {
            return known.clone();
        }
        let table = self.table(std::slice::from_ref(pattern));
        if table.is_none() {
            pattern.prepare();
        }
        let made = Arc::new(CompiledRegex { pattern: pattern.clone(), table });
        self.single.insert(pattern.source().into(), made.clone());
        made
    }

    /// The automata of several expressions. Together they cover all of them.
    pub(crate) fn many(&mut self, patterns: &[Pattern]) -> Vec<RegexSet> {
        let mut groups = Vec::new();
        self.split(patterns, 0, &mut groups);
        groups
    }

    fn split(&mut self, patterns: &[Pattern], first: u32, groups: &mut Vec<RegexSet>) {
        let table = self.table(patterns);
        if table.is_some() || patterns.len() <= 1 {
            if !patterns.is_empty() {
                if table.is_none() {
                    patterns.iter().for_each(Pattern::prepare);
                }
                groups.push(RegexSet { table, patterns: patterns.into(), first });
            }
            return;
        }
        let middle = patterns.len() / 2;
        let (head, tail) = patterns.split_at_checked(middle).unwrap_or((patterns, &[]));
        self.split(head, first, groups);
        let skipped = u32::try_from(head.len()).unwrap_or(u32::MAX);
        self.split(tail, first.saturating_add(skipped), groups);
    }

    fn table(&mut self, patterns: &[Pattern]) -> Option<Dfa> {
        if patterns.is_empty() || self.left == 0 {
            return None;
        }
        let sources: Vec<String> = patterns.iter().map(Pattern::anchored).collect();
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .accelerate(false)
            .unicode_word_boundary(true)
            .dfa_size_limit(Some(MAX_TABLE.min(self.left)))
            .determinize_size_limit(Some(MAX_WORK));
        let dfa = dense::Builder::new().configure(config).build_many(&sources).ok()?;
        let anchored = start::Config::new().anchored(Anchored::Yes);
        let start = dfa.start_state(&anchored).ok()?;
        self.left = self.left.saturating_sub(dfa.memory_usage());
        Some(Dfa { dfa, start })
    }
}

#[derive(Debug)]
struct Dfa {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
}

enum DfaOutcome {
    Matched(StateID),
    Failed,
    /// A word boundary beside a character outside ASCII, which the DFA does not support.
    Unknown,
}

impl Dfa {
    fn walk(&self, bytes: impl Iterator<Item = u8>) -> DfaOutcome {
        let mut state = self.start;
        for byte in bytes {
            state = self.dfa.next_state(state, byte);
            if self.dfa.is_special_state(state) {
                if self.dfa.is_dead_state(state) {
                    return DfaOutcome::Failed;
                }
                if self.dfa.is_quit_state(state) {
                    return DfaOutcome::Unknown;
                }
            }
        }
        let state = self.dfa.next_eoi_state(state);
        if self.dfa.is_match_state(state) { DfaOutcome::Matched(state) } else { DfaOutcome::Failed }
    }
}

/// One expression.
#[derive(Debug)]
pub(crate) struct CompiledRegex {
    pattern: Pattern,
    table: Option<Dfa>,
}

impl CompiledRegex {
    /// Returns true if the whole of `text` matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.matches_ascii(text.bytes()).unwrap_or_else(|| self.pattern.matches(text))
    }

    /// As [`CompiledRegex::matches`], for an iterator of bytes. `None` if the DFA cannot decide.
    pub(crate) fn matches_ascii(&self, bytes: impl Iterator<Item = u8>) -> Option<bool> {
        match self.table.as_ref()?.walk(bytes) {
            DfaOutcome::Matched(_) => Some(true),
            DfaOutcome::Failed => Some(false),
            DfaOutcome::Unknown => None,
        }
    }
}

/// Several expressions that are walked together, numbered from `first`.
#[derive(Debug)]
pub(crate) struct RegexSet {
    table: Option<Dfa>,
    patterns: Box<[Pattern]>,
    first: u32,
}

impl RegexSet {
    /// Calls `found` with the number of each expression that matches the whole of `text`.
    pub(crate) fn each_match(&self, text: &str, mut found: impl FnMut(u32)) {
        let walked = self.table.as_ref().map(|table| (table, table.walk(text.bytes())));
        match walked {
            Some((_, DfaOutcome::Failed)) => {}
            Some((table, DfaOutcome::Matched(state))) => {
                for index in 0..table.dfa.match_len(state) {
                    let pattern = table.dfa.match_pattern(state, index).as_u32();
                    found(self.first.saturating_add(pattern));
                }
            }
            Some((_, DfaOutcome::Unknown)) | None => {
                for (number, pattern) in (self.first..).zip(&self.patterns) {
                    if pattern.matches(text) {
                        found(number);
                    }
                }
            }
        }
    }
}
