//! The parts that the delegations of a root have in the bounds of its tree.
//!
//! Somebody to whom a path is handed can fill a tree. So each rule of the root that delegates has its fair
//! part, and what one leaves over goes to those that need more: nobody loses a path by the growth of
//! another, whatever the order of the rules.

use crate::query::delegation::TreeNode;

/// The most times that what is left over is divided again. Each costs a walk of those that need more.
const MAX_ROUNDS: usize = 3;

/// A part of the bounds of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Objects that are visited.
    pub(super) visits: usize,
    /// Pairs of a host and a path.
    pub(super) paths: usize,
}

impl Share {
    /// The message that there is no room for an object.
    pub(super) fn too_large(self, child: &str) -> String {
        let Self { visits, paths } = self;
        format!(
            "the delegation of the root has its share of {visits} objects or {paths} paths of hosts \
             without {child}"
        )
    }
}

impl Share {
    fn less(self, other: Self) -> Self {
        Self {
            visits: self.visits.saturating_sub(other.visits),
            paths: self.paths.saturating_sub(other.paths),
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            visits: self.visits.saturating_add(other.visits),
            paths: self.paths.saturating_add(other.paths),
        }
    }

    fn divided(self, parts: usize) -> Self {
        let parts = parts.max(1);
        Self {
            visits: self.visits.checked_div(parts).unwrap_or_default(),
            paths: self.paths.checked_div(parts).unwrap_or_default(),
        }
    }
}

/// A rule of the root with all that it leads to.
pub(super) struct Branch {
    /// The rule, then what it leads to.
    pub(super) nodes: Vec<TreeNode>,
    /// The part that it takes.
    pub(super) used: Share,
    /// True if something is left out because its share is used up.
    pub(super) is_cut: bool,
}

/// The branches of the rules of a root within a bound. `walk` follows a rule as far as its share goes.
pub(super) fn branches<R>(
    rules: &[R],
    bound: Share,
    mut walk: impl FnMut(&R, Share) -> Branch,
) -> Vec<Branch> {
    let mut left = bound;
    let mut found = Vec::new();
    for rule in rules {
        let branch = walk(rule, left);
        if branch.is_cut {
            return fair(rules, bound, walk);
        }
        left = left.less(branch.used);
        found.push(branch);
    }
    found
}

/// The branches where there is no room for all.
fn fair<R>(rules: &[R], bound: Share, mut walk: impl FnMut(&R, Share) -> Branch) -> Vec<Branch> {
    let first = bound.divided(rules.len());
    let mut all: Vec<(&R, Share, Branch)> =
        rules.iter().map(|rule| (rule, first, walk(rule, first))).collect();
    for _ in 0..MAX_ROUNDS {
        let taken = all.iter().map(|(_, share, branch)| match branch.is_cut {
            true => *share,
            false => branch.used,
        });
        let left = taken.fold(bound, Share::less);
        let cut = all.iter().filter(|(.., branch)| branch.is_cut).count();
        let more = left.divided(cut);
        if cut == 0 || (more.visits == 0 && more.paths == 0) {
            break;
        }
        for (rule, share, branch) in all.iter_mut().filter(|(.., branch)| branch.is_cut) {
            *share = share.with(more);
            *branch = walk(*rule, *share);
        }
    }
    all.into_iter().map(|(.., branch)| branch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects, of 100, that each of these needs and gets; pairs are three times as many.
    fn divided(needs: &[usize]) -> Vec<(usize, bool)> {
        let bound = Share { visits: 100, paths: 300 };
        let walk = |need: &usize, share: Share| {
            let visits = (*need).min(share.visits).min(share.paths / 3);
            let used = Share { visits, paths: visits.saturating_mul(3) };
            Branch { nodes: Vec::new(), used, is_cut: visits < *need }
        };
        let found = branches(needs, bound, walk);
        found.into_iter().map(|branch| (branch.used.visits, branch.is_cut)).collect()
    }

    #[test]
    fn each_has_its_part_and_what_is_left_over_goes_to_those_who_need_more() {
        assert_eq!(divided(&[]), []);
        assert_eq!(divided(&[100]), [(100, false)]);
        assert_eq!(divided(&[1000]), [(100, true)]);
        assert_eq!(divided(&[90, 10, 0]), [(90, false), (10, false), (0, false)]);
        for hostile in 0..4 {
            let mut needs = [10, 10, 10, 10];
            needs[hostile] = 1000;
            let mut wanted = [(10, false); 4];
            wanted[hostile] = (70, true);
            assert_eq!(divided(&needs), wanted);
        }
        assert_eq!(divided(&[1000, 30, 1000]), [(35, true), (30, false), (35, true)]);
    }
}
