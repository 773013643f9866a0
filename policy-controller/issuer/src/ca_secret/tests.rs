//! The content of the Secret survives writing and reading, and a rotation loses no root.

use super::*;
use crate::authority::{Lifetime, generate};
use k8s_openapi::ByteString;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn rotation() -> Rotation {
    Rotation {
        lifetime: Duration::from_secs(100 * 86_400),
        after: 66,
        settle: Duration::from_secs(3600),
        certificates: Lifetime {
            lifetime: Duration::from_secs(86_400),
            skew: Duration::from_secs(20),
        },
    }
}

fn made(at: SystemTime) -> GeneratedAuthority {
    generate("cluster.local", at, rotation().lifetime).unwrap()
}

fn written(held: &CaSecret) -> Data {
    let mut data = Data::new();
    held.write(&mut data);
    data
}

fn keys(held: &CaSecret) -> Vec<String> {
    written(held).into_keys().collect()
}

fn again(held: &CaSecret) -> CaSecret {
    let read = CaSecret::read(&written(held)).unwrap();
    assert_eq!(written(&read), written(held));
    read
}

#[test]
fn a_rotation_goes_through_the_secret_step_by_step() {
    let first = CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap();
    assert_eq!(keys(&first), ["ca.crt", "longest.seconds", "tls.crt", "tls.key"]);
    assert_eq!(
        (first.state(), first.bundle().0.matches("BEGIN").count()),
        (RotationPhase::Steady, 1)
    );
    let first = again(&first);
    assert!(first.times("please").requested && !first.times("").requested);

    let later = now() + Duration::from_secs(86_400);
    let staged = first.clone().stage(made(later), "please", later).unwrap();
    let staged = again(&staged);
    assert_eq!(staged.state(), RotationPhase::Staged);
    assert!(staged.authority.is(&first.authority), "nothing is issued from the next one");
    assert!(staged.bundle().0.starts_with(&first.bundle().0), "both roots are published");
    assert!(!staged.times("please").requested, "the wish has been fulfilled");
    assert!(staged.times("once more").requested);

    let promoted = again(&staged.clone().promote(&rotation(), later).unwrap());
    assert_eq!(promoted.state(), RotationPhase::Overlap);
    assert!(!promoted.authority.is(&first.authority));
    let sorted = |held: &CaSecret| {
        let mut roots = certificates(held.bundle().0.as_bytes());
        roots.sort();
        roots
    };
    assert_eq!(sorted(&promoted), sorted(&staged), "whom to trust is the same as before");
    let until = promoted.times("").former_until.unwrap();
    assert!(until >= later + rotation().longest());

    let retired = again(&promoted.retire());
    assert_eq!(retired.state(), RotationPhase::Steady);
    assert!(!retired.bundle().0.contains(&first.bundle().0));
    assert_eq!(keys(&retired), ["ca.crt", "longest.seconds", "rotate.done", "tls.crt", "tls.key"]);
}

#[test]
fn what_could_not_be_used_is_not_held() {
    let good =
        written(&CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap());
    let other =
        written(&CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap());
    for key in ["tls.crt", "tls.key", "ca.crt"] {
        for value in [Some(other[key].clone()), Some(ByteString(b"\xff".to_vec())), None] {
            let mut data = good.clone();
            data.remove(key);
            if let Some(value) = value {
                data.insert(key.to_owned(), value);
            }
            let error = CaSecret::read(&data).unwrap_err().to_string();
            assert!(["tls.crt", "tls.key", "ca.crt"].iter().any(|k| error.contains(k)), "{error}");
        }
    }
}

#[test]
fn an_authority_made_anew_leaves_the_roots_that_were_there() {
    let former = CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap();
    let mut broken = written(&former);
    broken.remove("tls.key");
    let anew = CaSecret::create(made(now()), &broken, "", &rotation(), now()).unwrap();
    assert_eq!(anew.state(), RotationPhase::Overlap);
    assert!(anew.bundle().0.ends_with(&former.bundle().0));
}

#[test]
fn nothing_but_certificates_gets_into_the_bundle() {
    let held = CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap();
    let mut data = written(&held);
    let mixed = [data["ca.crt"].0.clone(), data["tls.key"].0.clone()].concat();
    data.insert("ca.crt".to_owned(), ByteString(mixed));
    let read = CaSecret::read(&data).unwrap();
    assert_eq!(read.bundle().0, held.bundle().0);
    assert!(!read.bundle().0.contains("PRIVATE"));
    assert!(!format!("{read:?}").contains("PRIVATE"));
}

#[test]
fn how_long_anything_lives_is_only_ever_raised() {
    let held = CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap();
    let month = Duration::from_secs(30 * 86_400);
    let widened = again(&held.widen(month));
    assert_eq!(widened.times("").longest, month);
    assert_eq!(widened.widen(Duration::from_secs(1)).times("").longest, month);
}

#[test]
fn an_authority_that_somebody_writes_does_not_end_the_trust_in_the_one_before() {
    let ours = CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap();
    let theirs = CaSecret::create(made(now()), &Data::new(), "", &rotation(), now()).unwrap();
    let retained =
        again(&theirs.clone().retain_roots(theirs.missing_roots(&ours), &rotation(), now()));
    assert_eq!(retained.bundle().0, theirs.bundle().0 + &ours.bundle().0);
    assert_eq!(retained.missing_roots(&ours), Vec::<String>::new());
    assert_eq!(ours.clone().retire().missing_roots(&ours), Vec::<String>::new());
}
