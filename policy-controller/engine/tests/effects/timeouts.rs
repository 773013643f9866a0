//! The smallest of each bound.

use super::*;

/// On the Server 10 s, on the route 3 s and 5 s, in every order of creation.
#[test]
fn the_smallest_of_each_bound_holds_in_any_order() {
    let route = route("HTTPRoute", "cart", CART);
    let wanted = [
        "from the request to the end of the response 3s: TimeoutPolicy shop/three",
        "from the end of the request to the head of the response 2s: TimeoutPolicy shop/five",
        "without a byte of either body 30s: TimeoutPolicy shop/ten",
    ];
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let [first, second, third] = order;
        let ten = timeout("ten", first, WEB, "request: 10s, idle: 30s");
        let three = timeout("three", second, ON_CART, "request: 3s, response: 4s");
        let five = timeout("five", third, ON_CART, "request: 5s, response: 2s, idle: 1m");
        let all = compiled(&[&route, &ten, &three, &five]);
        assert_eq!(effects(&all, "/cart", "web", &[]), wanted, "{order:?}");
        let without = compiled(&[&five, &ten, &route]);
        let left = [
            "from the request to the end of the response 5s: TimeoutPolicy shop/five",
            wanted[1],
            wanted[2],
        ];
        assert_eq!(effects(&without, "/cart", "web", &[]), left, "{order:?}");
    }
}

#[test]
fn a_policy_with_a_bound_that_cannot_be_is_ignored_and_says_so() {
    for bound in ["0s", "-1s", "1d", "2h"] {
        let bad = timeout("bad", 1, WEB, &format!("request: '{bound}'"));
        let good = timeout("good", 2, WEB, "request: 10s");
        let all = compiled(&[&bad, &good]);
        let wanted = "from the request to the end of the response 10s: TimeoutPolicy shop/good";
        assert_eq!(effects(&all, "/", "web", &[]), [wanted], "{bound}");
        let told = told(&all, Kind::TimeoutPolicy);
        assert_eq!(told["good"], ["Server shop/web: Accepted=True (Accepted)"]);
        let [line] = told["bad"].as_slice() else { panic!("{told:?}") };
        assert!(line.starts_with("-: Accepted=False (Invalid): spec.timeouts.request"), "{line}");
    }
}

#[test]
fn the_end_of_the_bound_is_the_policys() {
    let streams = "timeouts: {request: 3s}, streams: Unbounded";
    let unbounded = policy("TimeoutPolicy", "unbounded", 1, WEB, streams);
    let bounded = timeout("bounded", 2, WEB, "request: 10s");
    let wanted = [
        "from the request to the end of the response 10s: TimeoutPolicy shop/bounded",
        "from the request to the head of the response 3s: TimeoutPolicy shop/unbounded",
    ];
    assert_eq!(effects(&compiled(&[&unbounded, &bounded]), "/", "web", &[]), wanted);
}
