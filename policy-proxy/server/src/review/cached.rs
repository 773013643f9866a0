//! A cache and limits for reviews: results are cached for a few seconds, few reviews run
//! concurrently, in turns that are fair to client networks, and each has a timeout.

use super::definition::{Authenticated, ReviewError, Reviewer, Subject};
use crate::client_network::ClientNetwork;
use crate::fair_scheduler::FairScheduler;
use aws_lc_rs::digest::{SHA256, digest};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Time to live of a cached result. New streams notice a revoked right after that.
const TTL: Duration = Duration::from_secs(5);

/// Maximum number of cached results of each kind.
const MAX_ENTRIES: usize = 1024;

/// Maximum number of concurrent reviews, of tokens and of rights each. More wait.
const MAX_CONCURRENT: usize = 8;

/// Timeout of a review, including the wait.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A right: its subject and its namespace; `None` stands for all namespaces.
type RightKey = (Arc<Subject>, Option<Box<str>>);

/// Wraps a reviewer with a cache, a concurrency limit and a timeout.
#[derive(Debug)]
pub struct CachedReviewer<R> {
    inner: R,
    token_turns: FairScheduler,
    /// Turns of their own, because a client needs no valid token to have one reviewed.
    right_turns: FairScheduler,
    timeout: Duration,
    tokens: Mutex<TtlCache<[u8; 32], Authenticated>>,
    /// Reasons of refused tokens. A cache of their own, so that forged tokens do not evict valid
    /// ones.
    refused: Mutex<TtlCache<[u8; 32], String>>,
    rights: Mutex<TtlCache<RightKey, ()>>,
}

impl<R: Reviewer> CachedReviewer<R> {
    /// Wraps `inner`.
    pub fn new(inner: R) -> Self {
        Self::within(inner, TIMEOUT, TTL)
    }

    fn within(inner: R, timeout: Duration, ttl: Duration) -> Self {
        Self {
            inner,
            token_turns: FairScheduler::new(MAX_CONCURRENT),
            right_turns: FairScheduler::new(MAX_CONCURRENT),
            timeout,
            tokens: Mutex::new(TtlCache::new(ttl)),
            refused: Mutex::new(TtlCache::new(ttl)),
            rights: Mutex::new(TtlCache::new(ttl)),
        }
    }

    async fn bounded<T>(
        &self,
        turns: &FairScheduler,
        from: ClientNetwork,
        review: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        let bounded = async {
            let _turn = turns.acquire(from, 1).await;
            review.await
        };
        let late = || ReviewError::Unavailable("review timed out".to_owned());
        tokio::time::timeout(self.timeout, bounded).await.map_err(|_| late())?
    }
}

impl<R: Reviewer> Reviewer for CachedReviewer<R> {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        from: ClientNetwork,
    ) -> BoxFuture<'a, Result<Authenticated, ReviewError>> {
        Box::pin(async move {
            let hash = hash(token);
            if let Some(known) = self.tokens.lock().get(&hash)
                && known.expires > SystemTime::now()
            {
                return Ok(known);
            }
            if let Some(reason) = self.refused.lock().get(&hash) {
                return Err(ReviewError::Refused(reason));
            }
            let reviewed =
                self.bounded(&self.token_turns, from, self.inner.authenticate(token, from)).await;
            match &reviewed {
                Ok(known) => self.tokens.lock().insert(hash, known.clone()),
                Err(ReviewError::Refused(reason)) => {
                    self.refused.lock().insert(hash, reason.clone());
                }
                Err(ReviewError::Unavailable(_)) => {}
            }
            reviewed
        })
    }

    fn is_cached(&self, token: &str) -> bool {
        let known = self.tokens.lock().get(&hash(token));
        known.is_some_and(|known| known.expires > SystemTime::now())
    }

    fn may_view<'a>(
        &'a self,
        subject: &'a Arc<Subject>,
        namespace: Option<&'a str>,
        from: ClientNetwork,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(async move {
            let key = (subject.clone(), namespace.map(Into::into));
            if self.rights.lock().get(&key).is_some() {
                return Ok(true);
            }
            let asked = self.inner.may_view(subject, namespace, from);
            let may = self.bounded(&self.right_turns, from, asked).await?;
            // Missing rights are not cached: they are often granted while the client retries.
            if may {
                self.rights.lock().insert(key, ());
            }
            Ok(may)
        })
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    let digest = digest(&SHA256, token.as_bytes());
    hash.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    hash
}

/// Results of the last few seconds.
#[derive(Debug)]
struct TtlCache<K, V> {
    answers: HashMap<K, (V, Instant)>,
    ttl: Duration,
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    fn new(ttl: Duration) -> Self {
        Self { answers: HashMap::new(), ttl }
    }

    fn get(&self, key: &K) -> Option<V> {
        let (value, since) = self.answers.get(key)?;
        (since.elapsed() < self.ttl).then(|| value.clone())
    }

    fn insert(&mut self, key: K, value: V) {
        if self.answers.len() >= MAX_ENTRIES {
            let ttl = self.ttl;
            self.answers.retain(|_, (_, since)| since.elapsed() < ttl);
        }
        // Full of fresh results: this one is reviewed again next time.
        if self.answers.len() < MAX_ENTRIES {
            self.answers.insert(key, (value, Instant::now()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Accepts every token, for `lives`, and counts the reviews. A review of the token `slow` never
    /// ends.
    #[derive(Debug, Default)]
    struct Counting {
        lives: Duration,
        reviews: AtomicUsize,
        under_way: AtomicUsize,
        most: AtomicUsize,
    }

    impl Reviewer for Counting {
        fn authenticate<'a>(
            &'a self,
            token: &'a str,
            _: ClientNetwork,
        ) -> BoxFuture<'a, Result<Authenticated, ReviewError>> {
            Box::pin(async move {
                self.reviews.fetch_add(1, Ordering::SeqCst);
                let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
                if token == "slow" {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                self.under_way.fetch_sub(1, Ordering::SeqCst);
                if token == "forged" {
                    return Err(ReviewError::Refused("made up".to_owned()));
                }
                let subject = Subject { user: token.to_owned(), ..Subject::default() };
                let expires = SystemTime::now() + self.lives;
                Ok(Authenticated { subject: Arc::new(subject), expires })
            })
        }

        fn may_view<'a>(
            &'a self,
            subject: &'a Arc<Subject>,
            namespace: Option<&'a str>,
            _: ClientNetwork,
        ) -> BoxFuture<'a, Result<bool, ReviewError>> {
            self.reviews.fetch_add(1, Ordering::SeqCst);
            let may = namespace == Some(&subject.user);
            Box::pin(async move { Ok(may) })
        }
    }

    /// The network of the client of this number.
    fn network(client: u8) -> ClientNetwork {
        ClientNetwork::of([10, 0, 0, client].into())
    }

    fn reviews(bounded: &CachedReviewer<Counting>) -> usize {
        bounded.inner.reviews.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn an_answer_is_used_again_for_a_few_seconds() {
        let inner = Counting { lives: Duration::from_secs(600), ..Counting::default() };
        let bounded = CachedReviewer::within(inner, TIMEOUT, Duration::from_secs(1));
        let first = bounded.authenticate("a", network(1)).await.unwrap();
        assert_eq!(bounded.authenticate("a", network(1)).await.unwrap(), first);
        assert_eq!(reviews(&bounded), 1);
        assert_eq!(bounded.authenticate("b", network(1)).await.unwrap().subject.user, "b");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        bounded.authenticate("a", network(1)).await.unwrap();
        assert_eq!(reviews(&bounded), 3);
    }

    #[tokio::test]
    async fn a_refused_token_is_not_asked_about_again_for_a_few_seconds() {
        let inner = Counting { lives: Duration::from_secs(600), ..Counting::default() };
        let bounded = CachedReviewer::within(inner, TIMEOUT, Duration::from_secs(1));
        for _ in 0..10 {
            let refused = bounded.authenticate("forged", network(1)).await.unwrap_err();
            assert_eq!(refused, ReviewError::Refused("made up".to_owned()));
        }
        assert_eq!(reviews(&bounded), 1);
        tokio::time::sleep(Duration::from_millis(1100)).await;
        bounded.authenticate("forged", network(1)).await.unwrap_err();
        assert_eq!(reviews(&bounded), 2);
    }

    #[tokio::test]
    async fn a_token_is_not_remembered_for_longer_than_it_lives() {
        let inner = Counting { lives: Duration::from_millis(1), ..Counting::default() };
        let bounded = CachedReviewer::new(inner);
        bounded.authenticate("a", network(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        bounded.authenticate("a", network(1)).await.unwrap();
        assert_eq!(reviews(&bounded), 2);
    }

    #[tokio::test]
    async fn a_right_is_remembered_for_its_subject_and_namespace_and_its_lack_is_not() {
        let bounded = CachedReviewer::new(Counting::default());
        let subject = |user: &str| Arc::new(Subject { user: user.into(), ..Subject::default() });
        let may = async |user: &str, namespace| {
            bounded.may_view(&subject(user), namespace, network(1)).await.unwrap()
        };
        assert!(may("ops", Some("ops")).await && may("ops", Some("ops")).await);
        assert_eq!(reviews(&bounded), 1);
        assert!(!may("ops", Some("web")).await && !may("ops", None).await);
        assert!(!may("web", Some("ops")).await && !may("web", Some("ops")).await);
        assert_eq!(reviews(&bounded), 5);
    }

    #[tokio::test]
    async fn few_reviews_are_under_way_and_none_takes_for_ever() {
        let inner = Counting { lives: Duration::from_secs(600), ..Counting::default() };
        let bounded = CachedReviewer::within(inner, Duration::from_secs(3), TTL);
        let names: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
        let all = futures_util::future::join_all(
            names.iter().map(|n| bounded.authenticate(n, network(1))),
        );
        assert!(all.await.iter().all(Result::is_ok));
        assert_eq!(bounded.inner.most.load(Ordering::SeqCst), MAX_CONCURRENT);
        let late = bounded.authenticate("slow", network(1)).await.unwrap_err();
        assert_eq!(late, ReviewError::Unavailable("review timed out".to_owned()));
    }

    #[tokio::test]
    async fn a_client_of_many_tokens_waits_for_itself_and_others_for_one_review_each() {
        let inner = Counting { lives: Duration::from_secs(600), ..Counting::default() };
        let bounded = Arc::new(CachedReviewer::new(inner));
        for client in 1..=10 {
            for number in 0..100 {
                let bounded = Arc::clone(&bounded);
                tokio::spawn(async move {
                    let token = format!("{client}-{number}");
                    let _ = bounded.authenticate(&token, network(client)).await;
                });
            }
        }
        while bounded.inner.under_way.load(Ordering::SeqCst) < MAX_CONCURRENT {
            tokio::task::yield_now().await;
        }
        bounded.authenticate("honest", network(99)).await.unwrap();
        // Those under way, and one of each client that waits.
        let before = reviews(&bounded);
        assert!(before <= 4 * MAX_CONCURRENT + 11, "{before} of 1,000 came first");
    }

    #[tokio::test]
    async fn tokens_under_review_keep_nobody_from_rights() {
        let bounded = Arc::new(CachedReviewer::new(Counting::default()));
        for client in 1..=20 {
            let bounded = Arc::clone(&bounded);
            tokio::spawn(async move { bounded.authenticate("slow", network(client)).await });
        }
        while bounded.inner.under_way.load(Ordering::SeqCst) < MAX_CONCURRENT {
            tokio::task::yield_now().await;
        }
        let ops = Arc::new(Subject { user: "ops".into(), ..Subject::default() });
        assert_eq!(bounded.may_view(&ops, Some("ops"), network(99)).await, Ok(true));
    }

    #[test]
    fn memory_is_bounded() {
        // Nothing gets too old while the test runs.
        let mut memory = TtlCache::new(Duration::from_secs(3600));
        for n in 0..10 * MAX_ENTRIES {
            memory.insert(n, ());
        }
        assert_eq!(memory.answers.len(), MAX_ENTRIES);
    }
}
