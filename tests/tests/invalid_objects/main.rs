//! An object that breaks opens nothing: every part of every valid object of the scenarios is changed, and
//! where the object is invalid afterwards, no request is permitted that was refused before.
//!
//! Changes that leave the object valid are counted, not judged: they say something else, and mean it.

#[cfg(test)]
mod up;

use policy_testkit::long_or;
use policy_tests::invalid_objects::{Mutation, Random, World, is_invalid, mutate, worlds};
use std::collections::BTreeMap;

/// Changes that are tried; `.ci/long` tries more.
const CHANGES: usize = 4_000;

/// The outcome of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The object is valid still.
    Valid,
    /// The object is invalid, and nothing is permitted that was not.
    Closed,
    /// Nothing outside of the changed part says what was refused.
    Unknown,
    /// The object is of no kind that is read any more, or has no name.
    NoObject,
}

#[test]
fn an_object_that_breaks_permits_nothing_that_was_refused() {
    let worlds = worlds();
    assert!(worlds.len() >= 190, "worlds are missing: {}", worlds.len());
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    let mut opened = Vec::new();
    let changes = long_or("CHANGES", CHANGES);
    for number in 0..changes {
        let mut random = Random::new(number);
        let world = &worlds[number % worlds.len()];
        match change(world, &mut random) {
            Ok(outcome) => *counts.entry(outcome).or_default() += 1,
            Err(found) => opened.push(format!("change {number} of {}: {found}", world.name)),
        }
    }
    println!("{counts:?}");
    let closed = counts.get(&Outcome::Closed).copied().unwrap_or_default();
    assert!(opened.is_empty(), "{} changes opened something\n{}", opened.len(), opened.join("\n"));
    assert!(closed > changes / 4, "too few objects broke: {counts:?}");
}

/// Changes one node of one object.
///
/// # Errors
/// The request that is permitted and was refused.
fn change(world: &World, random: &mut Random) -> Result<Outcome, String> {
    let (number, before) = world.any_valid(random);
    let (after, mutation): (_, Mutation) = mutate(before, random);
    let Some(object) = world.reread(number, &after) else { return Ok(Outcome::NoObject) };
    if mutation.says_all_itself(before) {
        return Ok(Outcome::Unknown);
    }
    if !is_invalid(&object) {
        return Ok(Outcome::Valid);
    }
    match world.newly_permitted(number, object) {
        None => Ok(Outcome::Closed),
        Some(request) => Err(format!("{mutation}\n  permitted: {request}")),
    }
}
