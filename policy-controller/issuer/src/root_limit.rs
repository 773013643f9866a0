//! Limits the number of published roots to the number that clients read.

use policy_tls::identity::{MAX_ROOTS, pem};
use rustls::pki_types::CertificateDer;

/// Returns the roots to publish, in their order, PEM, and the number left out. If there are too
/// many, `needed` roots are kept first, then the last ones of `all`, which lists former roots from
/// the oldest to the newest.
pub(super) fn limit_roots(
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
        let (text, left_out) = limit_roots(&roots(64), |_| false);
        assert_eq!((text.matches("BEGIN").count(), left_out), (64, 0));
        let all = roots(70);
        let (text, left_out) = limit_roots(&all, |root| root.first() == Some(&2));
        assert_eq!((text.matches("BEGIN").count(), left_out), (64, 6));
        let expected: String = [2].into_iter().chain(7..70).map(|at| pem(&all[at])).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn more_needed_ones_than_are_read_are_bounded_too() {
        let (text, left_out) = limit_roots(&roots(70), |_| true);
        assert_eq!((text.matches("BEGIN").count(), left_out), (64, 6));
    }
}
