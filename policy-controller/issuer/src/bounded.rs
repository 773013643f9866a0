//! How many roots are published: as many as those who follow them read.

use policy_tls::identity::{MAX_ROOTS, pem};
use rustls::pki_types::CertificateDer;

/// The roots that are published of `all`, in their order, PEM, and how many are left out. Of more than
/// are read, those stay that are `needed`, and then those that stand last in `all`, where former ones
/// are in the order of their age.
pub(super) fn bounded(
    all: &[CertificateDer<'static>],
    needed: impl Fn(&CertificateDer<'static>) -> bool,
) -> (String, usize) {
    let left_out = all.len().saturating_sub(MAX_ROOTS);
    if left_out == 0 {
        return (all.iter().map(pem).collect(), 0);
    }
    let needed: Vec<bool> = all.iter().map(needed).collect();
    let mut room = MAX_ROOTS;
    let mut kept = vec![false; all.len()];
    for wanted in [true, false] {
        let ranked = kept.iter_mut().zip(&needed).rev().filter(|(_, needed)| **needed == wanted);
        for (kept, _) in ranked.take(room) {
            *kept = true;
            room = room.saturating_sub(1);
        }
    }
    let kept = all.iter().zip(kept).filter(|(_, kept)| *kept).map(|(root, _)| pem(root));
    (kept.collect(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(number: u8) -> Vec<CertificateDer<'static>> {
        (0..number).map(|byte| vec![byte; 3].into()).collect()
    }

    #[test]
    fn the_oldest_that_are_not_needed_are_left_out() {
        let (text, left_out) = bounded(&roots(64), |_| false);
        assert_eq!((text.matches("BEGIN").count(), left_out), (64, 0));
        let all = roots(70);
        let (text, left_out) = bounded(&all, |root| root.first() == Some(&2));
        assert_eq!((text.matches("BEGIN").count(), left_out), (64, 6));
        let expected: String = [2].into_iter().chain(7..70).map(|at| pem(&all[at])).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn more_needed_ones_than_are_read_are_bounded_too() {
        let (text, left_out) = bounded(&roots(70), |_| true);
        assert_eq!((text.matches("BEGIN").count(), left_out), (64, 6));
    }
}
