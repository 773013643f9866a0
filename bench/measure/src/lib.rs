//! Functions whose cost is measured, from the benches of the crates that own them.
//!
//! A bench lists [`Function`]s and gives them to [`main`]. Its program is run by `bench/functions`:
//!
//! | arguments | what it does |
//! |---|---|
//! | `--list` | prints the names, one a line |
//! | `--call NAME TIMES` | calls it so often, each time through [`measured_call`] and with what it needs made anew: what a profiler is to count |
//! | `--time NAME` | measures it by criterion |
//! | none, or what `cargo bench` gives | measures all of them by criterion |

use criterion::{BatchSize, Criterion};
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

/// A call that is ready to be made, once.
type Call = Box<dyn FnMut()>;

/// A function, and what it is called with.
pub struct Function {
    name: String,
    make: Box<dyn FnMut() -> Call>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Function {
    /// `run` with what `setup` makes, which is not measured, and neither is dropping what is given
    /// and returned. Names are lower-case words with hyphens.
    pub fn new<I: 'static, O: 'static>(
        name: &str,
        mut setup: impl FnMut() -> I + 'static,
        run: impl Fn(&mut I) -> O + 'static,
    ) -> Self {
        let run = Rc::new(run);
        let make = Box::new(move || {
            let (mut input, run, mut output) = (setup(), run.clone(), None);
            // What is returned is dropped with the call.
            let call: Call = Box::new(move || {
                _ = output.insert(black_box(run(black_box(&mut input))));
            });
            call
        });
        Self { name: name.to_owned(), make }
    }

    /// `run` with what is made once and shared by all calls.
    pub fn shared<I: 'static, O: 'static>(
        name: &str,
        setup: impl FnOnce() -> I + 'static,
        run: impl Fn(&I) -> O + 'static,
    ) -> Self {
        let (mut setup, mut made) = (Some(setup), None);
        let ready = move || {
            if let Some(setup) = setup.take() {
                made = Some(Rc::new(setup()));
            }
            made.clone()
        };
        Self::new(name, ready, move |made: &mut Option<Rc<I>>| made.as_deref().map(&run))
    }
}

/// Scope of a profiler's count: everything between its beginning and its end. It has to stay a function
/// of this name in the program.
#[inline(never)]
pub fn measured_call(call: &mut dyn FnMut()) {
    call();
    // Not a jump into the call, from which there would be no return here.
    black_box(());
}

/// Does what the program's arguments ask for.
pub fn main(functions: Vec<Function>) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["--list", ..] => functions.iter().for_each(|function| println!("{}", function.name)),
        ["--call", name, times] => {
            let times = times.parse().unwrap_or(1);
            functions.into_iter().filter(|f| f.name == name).for_each(|f| call(f, times));
        }
        ["--time", name, ..] => {
            functions.into_iter().filter(|f| f.name == name).for_each(time);
        }
        _ => functions.into_iter().for_each(time),
    }
}

fn call(mut function: Function, times: usize) {
    // What is made on first use is not a call's own.
    (function.make)()();
    for _ in 0..times {
        measured_call(&mut *(function.make)());
    }
}

fn time(mut function: Function) {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    criterion.bench_function(&function.name, |bencher| {
        bencher.iter_batched_ref(&mut function.make, |call| call(), BatchSize::SmallInput);
    });
}
